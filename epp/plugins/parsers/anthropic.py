"""The Anthropic Messages API (protocol §5.4)."""

from __future__ import annotations

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
    is_true,
    string_or_empty,
)
from epp.plugins.parsers.usage import usage_reader
from epp.support.path_suffixes import has_path_suffix, trimmed_path


class _Source(msgspec.Struct, frozen=True, gc=False):
    type: Raw = ABSENT
    media_type: Raw = ABSENT
    data: Raw = ABSENT
    url: Raw = ABSENT


class _Block(msgspec.Struct, frozen=True, gc=False):
    type: Raw = ABSENT
    text: Raw = ABSENT
    thinking: Raw = ABSENT
    id: Raw = ABSENT
    name: Raw = ABSENT
    tool_use_id: Raw = ABSENT
    source: _Source | None = None

    def wrong_member(self) -> str | None:
        for name in ("type", "text", "thinking", "id", "name", "tool_use_id"):
            if not is_a(getattr(self, name), b'"'):
                return name
        for name in self.source.__struct_fields__ if self.source else ():
            if not is_a(getattr(self.source, name), b'"'):
                return f"source.{name}"
        return None


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: Raw = ABSENT
    content: Raw = ABSENT


class _Tool(msgspec.Struct, frozen=True, gc=False):
    name: Raw = ABSENT
    description: Raw = ABSENT


class _Messages(msgspec.Struct, frozen=True, gc=False):
    model: Raw = ABSENT
    stream: Raw = ABSENT
    max_tokens: Raw = ABSENT
    messages: list[_Message | None] | None = None
    system: Raw = ABSENT
    tools: list[_Tool | None] | None = None
    cache_salt: Raw = ABSENT


_request = msgspec.json.Decoder(_Messages | None)
_blocks = msgspec.json.Decoder(list[_Block | None])


class AnthropicParser(Parser):
    """Reads `/messages`; `/messages/count_tokens` goes through unread, response and all."""

    type = "anthropic-parser"
    suffixes = ("messages", "messages/count_tokens")
    protocols = ("kubernetes.io/h2c", "http")

    def parse_request(self, path: str, body: bytes) -> ParsedRequest:
        """Read the body of one of the two paths."""
        trimmed = trimmed_path(path)
        if has_path_suffix(trimmed, "messages/count_tokens"):
            return ParsedRequest(api="", skip_response_processing=True)
        if not has_path_suffix(trimmed, "messages"):
            raise Rejection(ErrorCode.BAD_REQUEST, f"unsupported API endpoint: {path}")
        try:
            request = decode_object(body, _request)
            _check_members(request)
            model = string_or_empty(request.model)
        except ShapeError as error:
            message = f"error parsing messages request: {error}"
            raise Rejection(ErrorCode.BAD_REQUEST, message) from error
        except BodyError as error:
            message = f"error unmarshaling request body: {error}"
            raise Rejection(ErrorCode.BAD_REQUEST, message) from error
        if not request.messages:
            message = "invalid messages request: must have at least one message"
            raise Rejection(ErrorCode.BAD_REQUEST, message)
        return ParsedRequest(
            api="messages",
            model=model,
            has_model=first_byte(request.model) != b"",
            stream=is_true(request.stream),
            max_output_tokens=first_whole_number(request.max_tokens),
            is_json_object=True,
        )

    def response_reader(self, *, streaming: bool) -> ResponseReader:
        """A reader of the usage in a document or in an event stream."""
        return usage_reader(streaming=streaming)


def _check_members(request: _Messages) -> None:
    _check_string(request.cache_salt, "$.cache_salt")
    _check_content(request.system, "$.system")
    for index, message in enumerate(request.messages or ()):
        if message is not None:
            _check_string(message.role, f"$.messages[{index}].role")
            _check_content(message.content, f"$.messages[{index}].content")
    for index, tool in enumerate(request.tools or ()):
        if tool is not None:
            _check_string(tool.name, f"$.tools[{index}].name")
            _check_string(tool.description, f"$.tools[{index}].description")


def _check_string(value: Raw, where: str) -> None:
    if not is_a(value, b'"'):
        raise ShapeError(f"Expected `str` - at `{where}`")


def _check_content(value: Raw, where: str) -> None:
    if first_byte(value) != b"[":
        if not is_a(value, b'"'):
            raise ShapeError(f"Expected `str` or a list of blocks - at `{where}`")
        return
    try:
        blocks = _blocks.decode(value)
    except msgspec.MsgspecError as error:
        raise ShapeError(f"Expected a list of blocks - at `{where}`") from error
    for index, block in enumerate(blocks):
        wrong = block.wrong_member() if block is not None else None
        if wrong is not None:
            raise ShapeError(f"Expected `str` - at `{where}[{index}].{wrong}`")
