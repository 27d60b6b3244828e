"""vLLM's `generate` API: token ids in, tokens out (protocol §5.5)."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Raw

from epp.framework.errors import ErrorCode, PlainRejection, Rejection
from epp.framework.parsed_request import MultiModalFeature, ParsedRequest, PromptText
from epp.framework.plugin import Stability
from epp.framework.request_handling import Parser, ResponseReader
from epp.plugins.parsers.generate_body import sampling_params
from epp.plugins.parsers.json_values import (
    ABSENT,
    BodyError,
    decode_object,
    first_byte,
    first_whole_number,
    is_true,
    string_or_empty,
)
from epp.plugins.parsers.prompt_values import is_filled_list
from epp.plugins.parsers.token_ids import SLICE_BYTES, TokenIdError, TokenIds, token_ids
from epp.plugins.parsers.usage import usage_reader

MAX_FEATURES_BYTES = 1024 * 1024
"""Longer descriptions of media are not read: their hashes would be as many objects."""


MAX_SHOWN_BYTES = 32
"""Of a number that is refused."""

_KINDS = {b'"': "of type string", b"[": "of type array", b"{": "of type object"}


class _Generate(msgspec.Struct, frozen=True, gc=False):
    model: Raw = ABSENT
    stream: Raw = ABSENT
    token_ids: Raw = ABSENT
    cache_salt: Raw = ABSENT
    features: Raw = ABSENT
    sampling_params: Raw = ABSENT


class _Placeholder(msgspec.Struct, frozen=True, gc=False):
    offset: int = 0
    length: int = 0


class _Features(msgspec.Struct, frozen=True, gc=False):
    mm_hashes: dict[str, list[str | None] | None] | None = None
    mm_placeholders: dict[str, list[_Placeholder | None] | None] | None = None


_request = msgspec.json.Decoder(_Generate | None)
_features = msgspec.json.Decoder(_Features)
_values = msgspec.json.Decoder(list[Raw])


class VllmHttpParser(Parser):
    """Reads `/inference/v1/generate` of vLLM: token ids, and what it says of media among them."""

    type = "vllmhttp-parser"
    stability = Stability.BETA
    suffixes = ("inference/v1/generate",)
    protocols = ("kubernetes.io/h2c", "http")

    def parse_request(self, path: str, body: bytes) -> ParsedRequest:
        """Read the body of a generate request."""
        del path
        try:
            request = decode_object(body, _request)
            model = string_or_empty(request.model)
            cache_salt = string_or_empty(request.cache_salt)
        except BodyError as error:
            message = f"error unmarshaling request body: {error}"
            raise PlainRejection(ErrorCode.BAD_REQUEST, message) from error
        ids = _ids(request.token_ids)
        sampling = sampling_params(request.sampling_params)
        return ParsedRequest(
            api="generate",
            model=model,
            stream=is_true(request.stream),
            max_output_tokens=first_whole_number(sampling.max_tokens),
            is_json_object=True,
            cache_salt=cache_salt,
            read_prompts=partial(_read, ids, request.features),
        )

    def response_reader(self, *, streaming: bool) -> ResponseReader:
        """A reader of the usage in a document or in an event stream."""
        return usage_reader(streaming=streaming)


def _ids(value: Raw) -> TokenIds:
    if first_byte(value) != b"[" or not is_filled_list(value):
        message = "invalid generate request: must have non-empty token_ids field"
        raise PlainRejection(ErrorCode.BAD_REQUEST, message)
    try:
        return token_ids(value)
    except TokenIdError as error:
        problem = "invalid generate request: token_ids"
        raise Rejection(
            ErrorCode.BAD_REQUEST,
            f"{problem}{_fault(value, error.index)}",
            log_message=f"{problem}{_place(error.index)}: invalid value",
        ) from error


def _place(index: int | None) -> str:
    return "" if index is None else f"[{index}]"


def _fault(value: Raw, index: int | None) -> str:
    """Where the value that is no id stands; of texts and the like no more than their kind."""
    if index is None or memoryview(value).nbytes > SLICE_BYTES:
        return ": invalid value"
    item = memoryview(_values.decode(value)[index])
    kind = _KINDS.get(bytes(item[:1]))
    return f"{_place(index)}: invalid value {kind or bytes(item[:MAX_SHOWN_BYTES]).decode()}"


def _read(ids: TokenIds, features: Raw) -> tuple[PromptText, ...]:
    media = _described_media(features)
    return (PromptText(token_ids=ids.ids, features=media, omitted_tokens=ids.omitted),)


def _described_media(value: Raw) -> tuple[MultiModalFeature, ...]:
    """Placeholders with the hashes in the same places, in the order of the prompt."""
    if first_byte(value) != b"{" or memoryview(value).nbytes > MAX_FEATURES_BYTES:
        return ()
    try:
        features = _features.decode(value)
    except (msgspec.MsgspecError, RecursionError):
        return ()
    found: list[MultiModalFeature] = []
    for modality, placeholders in (features.mm_placeholders or {}).items():
        hashes = (features.mm_hashes or {}).get(modality) or []
        for index, place in enumerate(placeholders or ()):
            if place is not None:
                hash_ = (hashes[index] if index < len(hashes) else "") or ""
                found.append(MultiModalFeature(modality, hash_, place.offset, place.length))
    return tuple(sorted(found, key=lambda feature: feature.offset))
