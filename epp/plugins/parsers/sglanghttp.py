"""SGLang's `generate` API: token ids in, tokens out (protocol §5.5)."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Raw

from epp.framework.errors import ErrorCode, PlainRejection, Rejection
from epp.framework.parsed_request import ParsedRequest, PromptText
from epp.framework.plugin import Stability
from epp.framework.request_handling import Parser, ResponseReader
from epp.plugins.parsers.generate_body import sampling_params
from epp.plugins.parsers.json_values import (
    ABSENT,
    BodyError,
    decode_object,
    first_byte,
    first_whole_number,
    is_a,
    is_true,
    string_or_empty,
)
from epp.plugins.parsers.sglang_usage import sglang_usage_reader
from epp.plugins.parsers.token_ids import TokenIdError, TokenIds, token_ids
from epp.support.path_suffixes import trimmed_path


class _Generate(msgspec.Struct, frozen=True, gc=False):
    stream: Raw = ABSENT
    input_ids: Raw = ABSENT
    extra_key: Raw = ABSENT
    sampling_params: Raw = ABSENT


_request = msgspec.json.Decoder(_Generate | None)


class SglangHttpParser(Parser):
    """Reads `/generate` of SGLang: token ids of one prompt. The body names no model."""

    type = "sglanghttp-parser"
    stability = Stability.BETA
    suffixes = ("generate",)
    protocols = ("kubernetes.io/h2c", "http")

    def parse_request(self, path: str, body: bytes) -> ParsedRequest:
        """Read the body of a generate request."""
        if trimmed_path(path) != "/generate":
            raise PlainRejection(ErrorCode.BAD_REQUEST, f"unsupported path: {path}")
        try:
            request = decode_object(body, _request)
            if not is_a(request.extra_key, b'"'):
                message = "unsupported generate request: extra_key must be a string"
                raise PlainRejection(ErrorCode.BAD_REQUEST, message)
            extra_key = string_or_empty(request.extra_key)
        except BodyError as error:
            message = f"error unmarshaling request body: {error}"
            raise PlainRejection(ErrorCode.BAD_REQUEST, message) from error
        ids = _ids(request.input_ids)
        sampling = sampling_params(request.sampling_params)
        return ParsedRequest(
            api="generate",
            stream=is_true(request.stream),
            max_output_tokens=first_whole_number(sampling.max_new_tokens),
            cache_salt=extra_key,
            read_prompts=partial(_read, ids),
        )

    def response_reader(self, *, streaming: bool) -> ResponseReader:
        """A reader of the usage in a document or in an event stream."""
        return sglang_usage_reader(streaming=streaming)


def _ids(value: Raw) -> TokenIds:
    if first_byte(value) in (b"", b"n"):
        raise _invalid("input_ids must be provided")
    if first_byte(value) != b"[":
        raise _invalid("input_ids must be an array of uint32 integers")
    try:
        ids = token_ids(value)
    except TokenIdError as error:
        raise _invalid("input_ids must be an array of uint32 integers") from error
    if not ids.ids:
        raise _invalid("input_ids cannot be empty")
    return ids


def _invalid(problem: str) -> Rejection:
    return PlainRejection(ErrorCode.BAD_REQUEST, f"invalid generate request: {problem}")


def _read(ids: TokenIds) -> tuple[PromptText, ...]:
    return (PromptText(token_ids=ids.ids, omitted_tokens=ids.omitted),)
