"""The OpenAI APIs: what each needs in its body, and no more (protocol §5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
from msgspec import Raw

from epp.framework.errors import ErrorCode, PlainRejection
from epp.framework.parsed_request import ParsedRequest, PromptText
from epp.framework.plugin import Stability
from epp.framework.request_handling import Parser, ResponseReader
from epp.plugins.parsers.chat_completions import ChatCompletionsBody
from epp.plugins.parsers.json_values import (
    ABSENT,
    BodyError,
    ShapeError,
    decode_object,
    first_byte,
    first_whole_number,
    is_true,
    string_or_empty,
)
from epp.plugins.parsers.openai_body import OpenAIBody
from epp.plugins.parsers.prompt_pieces import Pieces, ReadPrompts, add_json
from epp.plugins.parsers.prompt_values import (
    is_filled_list,
    is_list_of_texts,
    is_text,
    prompts_of,
    token_prompts_of,
)
from epp.plugins.parsers.usage import usage_reader
from epp.support.path_suffixes import has_path_suffix, trimmed_path


class _Completions(OpenAIBody, frozen=True, gc=False):
    prompt: Raw = ABSENT
    max_tokens: Raw = ABSENT

    def prompt_reader(self) -> ReadPrompts | None:
        return prompts_of(self.prompt)

    def max_output_tokens(self) -> int | None:
        return first_whole_number(self.max_tokens)


class _Responses(OpenAIBody, frozen=True, gc=False):
    instructions: Raw = ABSENT
    tools: Raw = ABSENT
    input: Raw = ABSENT
    max_output: Raw = msgspec.field(default=ABSENT, name="max_output_tokens")

    def prompt_reader(self) -> ReadPrompts | None:
        if first_byte(self.input) in (b"", b"n"):
            return None
        parts = (("instructions", self.instructions), ("tools", self.tools), ("input", self.input))
        return partial(_read_members, parts)

    def max_output_tokens(self) -> int | None:
        return first_whole_number(self.max_output)


class _Conversations(OpenAIBody, frozen=True, gc=False):
    items: Raw = ABSENT

    def prompt_reader(self) -> ReadPrompts | None:
        return partial(_read_json, self.items) if is_filled_list(self.items) else None


class _Embeddings(OpenAIBody, frozen=True, gc=False):
    input: Raw = ABSENT

    def prompt_reader(self) -> ReadPrompts | None:
        if is_text(self.input) or is_list_of_texts(self.input):
            return partial(_read_json, self.input)
        return token_prompts_of(self.input)


class _ImagesGenerations(OpenAIBody, frozen=True, gc=False):
    prompt: Raw = ABSENT

    def prompt_reader(self) -> ReadPrompts | None:
        return prompts_of(self.prompt) if is_text(self.prompt) else None


def _read_json(value: Raw) -> tuple[PromptText, ...]:
    pieces = Pieces()
    add_json(pieces, value)
    return (PromptText(pieces),)


def _read_members(members: Sequence[tuple[str, Raw]]) -> tuple[PromptText, ...]:
    """A JSON list with an object for each member that is there, as the reference has it."""
    pieces = Pieces()
    opening = b"[{"
    for name, value in members:
        if first_byte(value) not in (b"", b"n"):
            pieces.append(b'%b"%b":' % (opening, name.encode()))
            add_json(pieces, value)
            opening = b"},{"
    pieces.append(b"}]")
    return (PromptText(pieces),)


@dataclass(frozen=True, slots=True)
class _Api:
    name: str
    decoder: msgspec.json.Decoder[OpenAIBody | None]
    error: str


def _api(name: str, body: type[OpenAIBody], error: str) -> _Api:
    return _Api(name, msgspec.json.Decoder(body | None), error)


_COMPLETIONS = _api(
    "completions", _Completions, "invalid completions request: must have prompt field"
)
_CHAT_COMPLETIONS = _api(
    "chat/completions",
    ChatCompletionsBody,
    "invalid chat completions request: must have valid messages field",
)
_BY_SUFFIX = {
    "conversations": _api(
        "conversations", _Conversations, "invalid conversations request: must have items field"
    ),
    "responses": _api("responses", _Responses, "invalid responses request: must have input field"),
    "chat/completions": _CHAT_COMPLETIONS,
    "chat/completions/render": _CHAT_COMPLETIONS,
    "completions": _COMPLETIONS,
    "completions/render": _COMPLETIONS,
    "embeddings": _api(
        "embeddings", _Embeddings, "invalid embeddings request: must have input field"
    ),
    "images/generations": _api(
        "images/generations",
        _ImagesGenerations,
        "invalid images generations request: must have prompt field",
    ),
}


class OpenAIParser(Parser):
    """Reads bodies of the OpenAI APIs, which model servers speak too."""

    type = "openai-parser"
    stability = Stability.BETA
    suffixes = tuple(_BY_SUFFIX)
    protocols = ("kubernetes.io/h2c", "http")

    def parse_request(self, path: str, body: bytes) -> ParsedRequest:
        """Read a body as the API that `path` ends with; completions for any other path."""
        api = _api_of(path)
        try:
            request = decode_object(body, api.decoder)
            model = string_or_empty(request.model)
            cache_salt = string_or_empty(request.cache_salt)
        except ShapeError as error:
            raise PlainRejection(ErrorCode.BAD_REQUEST, api.error) from error
        except BodyError as error:
            message = f"error unmarshaling request bodyMap: {error}"
            raise PlainRejection(ErrorCode.BAD_REQUEST, message) from error
        read_prompts = request.prompt_reader()
        if read_prompts is None:
            raise PlainRejection(ErrorCode.BAD_REQUEST, api.error)
        return ParsedRequest(
            api=api.name,
            model=model,
            stream=is_true(request.stream),
            max_output_tokens=request.max_output_tokens(),
            is_json_object=True,
            cache_salt=cache_salt,
            read_prompts=read_prompts,
        )

    def response_reader(self, *, streaming: bool) -> ResponseReader:
        """A reader of the usage in a document or in an event stream."""
        return usage_reader(streaming=streaming)


def _api_of(path: str) -> _Api:
    trimmed = trimmed_path(path)
    for suffix, api in _BY_SUFFIX.items():
        if has_path_suffix(trimmed, suffix):
            return api
    return _COMPLETIONS
