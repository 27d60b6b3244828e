"""The OpenAI APIs: what each needs in its body, and no more (protocol §5.3)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import Raw

from epp.framework.errors import ErrorCode, Rejection
from epp.framework.request_handling import ParsedRequest, Parser, ResponseReader
from epp.plugins.parsers.json_values import (
    ABSENT,
    BodyError,
    ShapeError,
    decode_object,
    first_byte,
    first_whole_number,
    is_a,
    is_a_boolean,
    is_filled_list,
    is_prompt,
    is_true,
    string_or_empty,
)
from epp.plugins.parsers.usage import usage_reader
from epp.support.path_suffixes import has_path_suffix, trimmed_path


class _Request(msgspec.Struct, frozen=True, gc=False):
    model: Raw = ABSENT
    stream: Raw = ABSENT

    def is_valid(self) -> bool:
        raise NotImplementedError

    def max_output_tokens(self) -> int | None:
        return None


class _Completions(_Request, frozen=True, gc=False):
    prompt: Raw = ABSENT
    max_tokens: Raw = ABSENT

    def is_valid(self) -> bool:
        return is_prompt(self.prompt)

    def max_output_tokens(self) -> int | None:
        return first_whole_number(self.max_tokens)


class _Url(msgspec.Struct, frozen=True, gc=False):
    url: Raw = ABSENT


class _Audio(msgspec.Struct, frozen=True, gc=False):
    data: Raw = ABSENT
    format: Raw = ABSENT


class _ContentBlock(msgspec.Struct, frozen=True, gc=False):
    type: Raw = ABSENT
    text: Raw = ABSENT
    image_url: _Url | None = None
    input_audio: _Audio | None = None
    video_url: _Url | None = None

    def is_valid(self) -> bool:
        strings = [self.type, self.text]
        strings += [link.url for link in (self.image_url, self.video_url) if link]
        if self.input_audio:
            strings += self.input_audio.data, self.input_audio.format
        return all(is_a(value, b'"') for value in strings)


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: Raw = ABSENT
    content: Raw = ABSENT
    tool_calls: Raw = ABSENT

    def is_valid(self) -> bool:
        if not (is_a(self.role, b'"') and is_a(self.tool_calls, b"[")):
            return False
        if first_byte(self.content) != b"[":
            return is_a(self.content, b'"')
        return all(block is None or block.is_valid() for block in _blocks.decode(self.content))


class _ChatCompletions(_Request, frozen=True, gc=False):
    messages: list[_Message | None] | None = None
    tools: Raw = ABSENT
    documents: Raw = ABSENT
    chat_template: Raw = ABSENT
    chat_template_kwargs: Raw = ABSENT
    return_assistant_tokens_mask: Raw = ABSENT
    continue_final_message: Raw = ABSENT
    add_generation_prompt: Raw = ABSENT
    cache_salt: Raw = ABSENT
    max_completion_tokens: Raw = ABSENT
    max_tokens: Raw = ABSENT

    def is_valid(self) -> bool:
        try:
            return bool(self.messages) and self._has_valid_messages() and self._has_valid_options()
        except msgspec.MsgspecError:
            return False

    def max_output_tokens(self) -> int | None:
        return first_whole_number(self.max_completion_tokens, self.max_tokens)

    def _has_valid_messages(self) -> bool:
        return all(message is None or message.is_valid() for message in self.messages or ())

    def _has_valid_options(self) -> bool:
        booleans = (
            self.return_assistant_tokens_mask,
            self.continue_final_message,
            self.add_generation_prompt,
        )
        return (
            is_a(self.tools, b"[")
            and is_a(self.documents, b"[")
            and is_a(self.chat_template, b'"')
            and is_a(self.chat_template_kwargs, b"{")
            and is_a(self.cache_salt, b'"')
            and all(map(is_a_boolean, booleans))
        )


class _Responses(_Request, frozen=True, gc=False):
    input: Raw = ABSENT
    max_output: Raw = msgspec.field(default=ABSENT, name="max_output_tokens")

    def is_valid(self) -> bool:
        return first_byte(self.input) not in (b"", b"n")

    def max_output_tokens(self) -> int | None:
        return first_whole_number(self.max_output)


class _Conversations(_Request, frozen=True, gc=False):
    items: Raw = ABSENT

    def is_valid(self) -> bool:
        return is_filled_list(self.items)


class _Embeddings(_Request, frozen=True, gc=False):
    input: Raw = ABSENT

    def is_valid(self) -> bool:
        return is_prompt(self.input)


class _ImagesGenerations(_Request, frozen=True, gc=False):
    prompt: Raw = ABSENT

    def is_valid(self) -> bool:
        return first_byte(self.prompt) == b'"' and is_prompt(self.prompt)


_blocks = msgspec.json.Decoder(list[_ContentBlock | None])


@dataclass(frozen=True, slots=True)
class _Api:
    name: str
    decoder: msgspec.json.Decoder[_Request | None]
    error: str


def _api(name: str, request: type[_Request], error: str) -> _Api:
    return _Api(name, msgspec.json.Decoder(request | None), error)


_COMPLETIONS = _api(
    "completions", _Completions, "invalid completions request: must have prompt field"
)
_CHAT_COMPLETIONS = _api(
    "chat/completions",
    _ChatCompletions,
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
    suffixes = tuple(_BY_SUFFIX)
    protocols = ("kubernetes.io/h2c", "http")

    def parse_request(self, path: str, body: bytes) -> ParsedRequest:
        """Read a body as the API that `path` ends with; completions for any other path."""
        api = _api_of(path)
        try:
            request = decode_object(body, api.decoder)
            model = string_or_empty(request.model)
        except ShapeError as error:
            raise Rejection(ErrorCode.BAD_REQUEST, api.error) from error
        except BodyError as error:
            message = f"error unmarshaling request bodyMap: {error}"
            raise Rejection(ErrorCode.BAD_REQUEST, message) from error
        if not request.is_valid():
            raise Rejection(ErrorCode.BAD_REQUEST, api.error)
        return ParsedRequest(
            api=api.name,
            model=model,
            has_model=first_byte(request.model) != b"",
            stream=is_true(request.stream),
            max_output_tokens=request.max_output_tokens(),
            is_json_object=True,
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
