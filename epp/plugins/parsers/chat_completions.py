"""Body of the chat completions API, and the prompt in it (protocol §5.3, scheduling §12.1)."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Raw

from epp.framework.parsed_request import PromptText
from epp.plugins.parsers.json_values import (
    ABSENT,
    MAX_CONTAINERS,
    first_byte,
    first_whole_number,
    is_a,
    is_a_boolean,
)
from epp.plugins.parsers.openai_body import OpenAIBody
from epp.plugins.parsers.prompt_pieces import Pieces, ReadPrompts, add_json, add_media, add_text
from epp.plugins.parsers.prompt_values import is_filled_list


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
    audio_url: Raw = ABSENT
    file: Raw = ABSENT

    def is_valid(self) -> bool:
        strings = [self.type, self.text]
        strings += [link.url for link in (self.image_url, self.video_url) if link]
        if self.input_audio:
            strings += self.input_audio.data, self.input_audio.format
        return all(is_a(value, b'"') for value in strings)

    def add_to(self, pieces: Pieces) -> None:
        add_text(pieces, self.text)
        if self.image_url:
            add_media(pieces, "image", self.image_url.url)
        if self.input_audio:
            add_media(pieces, "audio", self.input_audio.data)
        if self.video_url:
            add_media(pieces, "video", self.video_url.url)
        add_json(pieces, self.audio_url)
        add_json(pieces, self.file)


_blocks = msgspec.json.Decoder(list[_ContentBlock | None])


class _InvalidChat(Exception):
    """A message whose members have not the types the API gives them."""


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: Raw = ABSENT
    content: Raw = ABSENT
    tool_calls: Raw = ABSENT

    def blocks(self) -> list[_ContentBlock | None]:
        """The blocks of a content that has some; raises `_InvalidChat`."""
        if not (is_a(self.role, b'"') and is_a(self.tool_calls, b"[")):
            raise _InvalidChat
        opening = first_byte(self.content)
        if opening != b"[":
            if opening not in (b'"', b"", b"n"):
                raise _InvalidChat
            return []
        blocks = _blocks.decode(self.content)
        if len(blocks) > MAX_CONTAINERS or not all(b is None or b.is_valid() for b in blocks):
            raise _InvalidChat
        return blocks

    def add_to(self, pieces: Pieces, blocks: list[_ContentBlock | None]) -> None:
        add_text(pieces, self.role)
        if not blocks:
            add_text(pieces, self.content)
        for block in blocks:
            if block is not None:
                block.add_to(pieces)
        if first_byte(self.tool_calls) == b"[":
            pieces.append(memoryview(self.tool_calls))


class ChatCompletionsBody(OpenAIBody, frozen=True, gc=False):
    """Messages, tools, and what else changes how they become a prompt."""

    messages: list[_Message | None] | None = None
    tools: Raw = ABSENT
    documents: Raw = ABSENT
    chat_template: Raw = ABSENT
    chat_template_kwargs: Raw = ABSENT
    return_assistant_tokens_mask: Raw = ABSENT
    continue_final_message: Raw = ABSENT
    add_generation_prompt: Raw = ABSENT
    max_completion_tokens: Raw = ABSENT
    max_tokens: Raw = ABSENT

    def prompt_reader(self) -> ReadPrompts | None:
        """What reads tools and messages; None: there are none, or they are malformed."""
        messages = self.messages
        if not messages or len(messages) > MAX_CONTAINERS or not self._has_valid_options():
            return None
        try:
            blocks = [[] if message is None else message.blocks() for message in messages]
        except (_InvalidChat, msgspec.MsgspecError):
            return None
        return partial(_read, self, blocks)

    def max_output_tokens(self) -> int | None:
        """The cap under its newer name, else under its older one."""
        return first_whole_number(self.max_completion_tokens, self.max_tokens)

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


def _read(
    body: ChatCompletionsBody, blocks: list[list[_ContentBlock | None]]
) -> tuple[PromptText, ...]:
    pieces = Pieces()
    # Tools first: engines render them before the system text (pitfall 14).
    if first_byte(body.tools) == b"[" and is_filled_list(body.tools):
        pieces.append(memoryview(body.tools))
    for message, its_blocks in zip(body.messages or (), blocks, strict=True):
        if message is not None:
            message.add_to(pieces, its_blocks)
    return (PromptText(pieces),)
