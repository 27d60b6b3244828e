"""Content of Anthropic messages: a text or typed blocks, and the prompt they make."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Raw

from epp.plugins.parsers.json_values import (
    ABSENT,
    MAX_CONTAINERS,
    ShapeError,
    first_byte,
    is_a,
)
from epp.plugins.parsers.prompt_pieces import Pieces, add_json, add_media, add_text


class _Source(msgspec.Struct, frozen=True, gc=False):
    type: Raw = ABSENT
    media_type: Raw = ABSENT
    data: Raw = ABSENT
    url: Raw = ABSENT

    def add_to(self, pieces: Pieces, modality: str) -> None:
        if _is(self.type, b"text"):
            add_text(pieces, self.data)
        else:
            add_media(pieces, modality, self.data if first_byte(self.url) != b'"' else self.url)


class _Block(msgspec.Struct, frozen=True, gc=False):
    type: Raw = ABSENT
    text: Raw = ABSENT
    thinking: Raw = ABSENT
    id: Raw = ABSENT
    name: Raw = ABSENT
    tool_use_id: Raw = ABSENT
    input: Raw = ABSENT
    content: Raw = ABSENT
    source: _Source | None = None

    def wrong_member(self) -> str | None:
        for name in ("type", "text", "thinking", "id", "name", "tool_use_id"):
            if not is_a(getattr(self, name), b'"'):
                return name
        for name in self.source.__struct_fields__ if self.source else ():
            if not is_a(getattr(self.source, name), b'"'):
                return f"source.{name}"
        return None

    def add_to(self, pieces: Pieces, *, is_nested: bool = False) -> None:
        for text in (self.thinking, self.text, self.id, self.name):
            add_text(pieces, text)
        add_json(pieces, self.input)
        if self.source is not None:
            self.source.add_to(pieces, "file" if _is(self.type, b"document") else "image")
        if is_nested:
            # Blocks within blocks within blocks would be decoded once for each level.
            add_json(pieces, self.content)
        else:
            _add_inner_content(pieces, self.content)


Blocks: TypeAlias = "list[_Block | None]"

_blocks = msgspec.json.Decoder(list[_Block | None])


def blocks_of(value: Raw, where: str) -> Blocks:
    """The blocks of a content that has some; raises `ShapeError` for one that is malformed."""
    if first_byte(value) != b"[":
        if not is_a(value, b'"'):
            raise ShapeError(f"Expected `str` or a list of blocks - at `{where}`")
        return []
    try:
        blocks = _blocks.decode(value)
    except msgspec.MsgspecError as error:
        raise ShapeError(f"Expected a list of blocks - at `{where}`") from error
    if len(blocks) > MAX_CONTAINERS:
        raise ShapeError(f"Expected at most {MAX_CONTAINERS} blocks - at `{where}`")
    for index, block in enumerate(blocks):
        wrong = block.wrong_member() if block is not None else None
        if wrong is not None:
            raise ShapeError(f"Expected `str` - at `{where}[{index}].{wrong}`")
    return blocks


def add_content(pieces: Pieces, value: Raw, blocks: Blocks) -> None:
    """Append a content: its text, or its blocks."""
    if not blocks:
        add_text(pieces, value)
    for block in blocks:
        if block is not None:
            block.add_to(pieces)


def _add_inner_content(pieces: Pieces, value: Raw) -> None:
    """Append what a tool gave back. Its shape is not checked when a request is parsed."""
    if first_byte(value) == b'"':
        add_text(pieces, value)
        return
    start = len(pieces)
    try:
        for block in _blocks.decode(value) if first_byte(value) == b"[" else ():
            if block is not None:
                block.add_to(pieces, is_nested=True)
    except (msgspec.MsgspecError, RecursionError):
        del pieces[start:]
    if len(pieces) == start:
        add_json(pieces, value)


def _is(value: Raw, text: bytes) -> bool:
    return value is not ABSENT and bytes(memoryview(value)[1:-1]) == text
