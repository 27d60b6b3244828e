"""The Anthropic Messages API (protocol §5.4)."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Raw

from epp.framework.errors import ErrorCode, PlainRejection
from epp.framework.parsed_request import ParsedRequest, PromptText
from epp.framework.plugin import Stability
from epp.framework.request_handling import Parser, ResponseReader
from epp.plugins.parsers.anthropic_content import Blocks, add_content, blocks_of
from epp.plugins.parsers.json_values import (
    ABSENT,
    MAX_CONTAINERS,
    BodyError,
    ShapeError,
    decode_object,
    first_byte,
    first_whole_number,
    is_a,
    is_true,
    string_or_empty,
)
from epp.plugins.parsers.prompt_pieces import Pieces, ReadPrompts, add_text
from epp.plugins.parsers.prompt_values import is_filled_list
from epp.plugins.parsers.usage import usage_reader
from epp.support.path_suffixes import has_path_suffix, trimmed_path


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
    tools: Raw = ABSENT
    cache_salt: Raw = ABSENT


_request = msgspec.json.Decoder(_Messages | None)
_tools = msgspec.json.Decoder(list[_Tool | None])


class AnthropicParser(Parser):
    """Reads `/messages`; `/messages/count_tokens` goes through unread, response and all."""

    type = "anthropic-parser"
    stability = Stability.BETA
    suffixes = ("messages", "messages/count_tokens")
    protocols = ("kubernetes.io/h2c", "http")

    def parse_request(self, path: str, body: bytes) -> ParsedRequest:
        """Read the body of one of the two paths."""
        trimmed = trimmed_path(path)
        if has_path_suffix(trimmed, "messages/count_tokens"):
            return ParsedRequest(api="", skip_response_processing=True)
        if not has_path_suffix(trimmed, "messages"):
            raise PlainRejection(ErrorCode.BAD_REQUEST, f"unsupported API endpoint: {path}")
        try:
            request = decode_object(body, _request)
            read_prompts = _prompt_reader(request)
            model = string_or_empty(request.model)
            cache_salt = string_or_empty(request.cache_salt)
        except ShapeError as error:
            message = f"error parsing messages request: {error}"
            raise PlainRejection(ErrorCode.BAD_REQUEST, message) from error
        except BodyError as error:
            message = f"error unmarshaling request body: {error}"
            raise PlainRejection(ErrorCode.BAD_REQUEST, message) from error
        if not request.messages:
            message = "invalid messages request: must have at least one message"
            raise PlainRejection(ErrorCode.BAD_REQUEST, message)
        return ParsedRequest(
            api="messages",
            model=model,
            stream=is_true(request.stream),
            max_output_tokens=first_whole_number(request.max_tokens),
            is_json_object=True,
            cache_salt=cache_salt,
            read_prompts=read_prompts,
        )

    def response_reader(self, *, streaming: bool) -> ResponseReader:
        """A reader of the usage in a document or in an event stream."""
        return usage_reader(streaming=streaming)


def _prompt_reader(request: _Messages) -> ReadPrompts:
    """What reads the prompt; raises `ShapeError` for members of other types than the API's."""
    _check_string(request.cache_salt, "$.cache_salt")
    system = blocks_of(request.system, "$.system")
    messages = request.messages or ()
    if len(messages) > MAX_CONTAINERS:
        raise ShapeError(f"Expected at most {MAX_CONTAINERS} messages - at `$.messages`")
    contents: list[Blocks] = []
    for index, message in enumerate(messages):
        if message is None:
            contents.append([])
            continue
        _check_string(message.role, f"$.messages[{index}].role")
        contents.append(blocks_of(message.content, f"$.messages[{index}].content"))
    _check_tools(request.tools)
    return partial(_read, request, system, contents)


def _read(request: _Messages, system: Blocks, contents: list[Blocks]) -> tuple[PromptText, ...]:
    pieces = Pieces()
    # Tools first: engines render them before the system text (pitfall 14).
    if first_byte(request.tools) == b"[" and is_filled_list(request.tools):
        pieces.append(memoryview(request.tools))
    add_content(pieces, request.system, system)
    for message, blocks in zip(request.messages or (), contents, strict=True):
        if message is not None:
            add_text(pieces, message.role)
            add_content(pieces, message.content, blocks)
    return (PromptText(pieces),)


def _check_tools(value: Raw) -> None:
    if first_byte(value) in (b"", b"n"):
        return
    try:
        tools = _tools.decode(value)
    except msgspec.MsgspecError as error:
        raise ShapeError(str(error).replace("`$", "`$.tools", 1)) from error
    for index, tool in enumerate(tools):
        if tool is not None:
            _check_string(tool.name, f"$.tools[{index}].name")
            _check_string(tool.description, f"$.tools[{index}].description")


def _check_string(value: Raw, where: str) -> None:
    if not is_a(value, b'"'):
        raise ShapeError(f"Expected `str` - at `{where}`")
