"""The model name of responses turned back into the one the client asked for (protocol §7.3).

Only JSON members `model` at the top, in `response` and in `message` are touched, and only when
their value is the target model; text that a model wrote never is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import msgspec

from epp.support.json_members import Member, MemberFinder, text_of

MAX_HELD_LINE = 64 * 1024
MAX_HELD_DOCUMENT = 16 * 1024 * 1024

_CARRIERS = MemberFinder("model", "response", "message")
_MODEL = MemberFinder("model")


class ModelRenaming:
    """Replaces one model name by another in JSON documents and in lines of an event stream."""

    def __init__(self, target: str, incoming: str) -> None:
        self._target = target
        self._target_json = msgspec.json.encode(target)
        self._incoming_json = msgspec.json.encode(incoming)

    def in_document(self, document: bytes, start: int = 0) -> bytes:
        """`document` renamed; what is not JSON, or only its beginning, is read as far as it is."""
        if not self._may_occur(document, start):
            return document
        pieces: list[bytes] = []
        position = 0
        for member in _model_members(document, start):
            if self._is_target(document[member.value_start : member.value_end]):
                pieces += document[position : member.value_start], self._incoming_json
                position = member.value_end
                if not self._may_occur(document, position):
                    break
        if not pieces:
            return document
        pieces.append(document[position:])
        return b"".join(pieces)

    def in_lines(self, text: bytes) -> bytes:
        """`text`, whole lines of an event stream or of JSON, with each document renamed."""
        if not self._may_occur(text, 0):
            return text
        return b"\n".join(map(self._in_line, text.split(b"\n")))

    def _in_line(self, line: bytes) -> bytes:
        if line.startswith(b"data:"):
            return self.in_document(line, 5)
        return self.in_document(line) if line.startswith(b"{") else line

    def _may_occur(self, text: bytes, start: int) -> bool:
        # Every other spelling of the same name has an escape in it.
        return text.find(self._target_json, start) >= 0 or text.find(b"\\", start) >= 0

    def _is_target(self, value: bytes) -> bool:
        if value == self._target_json:
            return True
        return b"\\" in value and text_of(value) == self._target


class ModelRewriter(ABC):
    """Renames the model in a response body that comes in pieces."""

    def __init__(self, target: str, incoming: str) -> None:
        self._renaming = ModelRenaming(target, incoming)
        self._held = bytearray()

    @property
    def held(self) -> bytes:
        """What has come and not gone out yet; a `feed` that raises leaves it as it was."""
        return bytes(self._held)

    @property
    def held_bytes(self) -> int:
        """Its length."""
        return len(self._held)

    @abstractmethod
    def feed(self, chunk: bytes, end: bool) -> bytes:
        """What can go out now that `chunk` has come; with `end` that is everything."""


class LineModelRewriter(ModelRewriter):
    """Renames the model in lines cut anywhere, of an event stream or of JSON, holding back an
    incomplete one.

    A line that outgrows `max_held_bytes` while it is held passes as it came.
    """

    def __init__(self, target: str, incoming: str, max_held_bytes: int = MAX_HELD_LINE) -> None:
        super().__init__(target, incoming)
        self._max_held_bytes = max_held_bytes
        self._is_inside_passed_line = False

    def feed(self, chunk: bytes, end: bool) -> bytes:
        """What can go out now that `chunk` has come; with `end` that is everything."""
        first = 0
        if self._is_inside_passed_line:
            first = chunk.find(b"\n") + 1
            if not first:
                return chunk
        last = len(chunk) if end else chunk.rfind(b"\n") + 1
        if last <= first and not end:
            return chunk[:first] + self._hold(chunk[first:])
        lines = chunk[first:last]
        renamed = self._renaming.in_lines(bytes(self._held) + lines if self._held else lines)
        self._held.clear()
        self._is_inside_passed_line = False
        if first == 0 and last == len(chunk):
            return renamed
        return chunk[:first] + renamed + self._hold(chunk[last:])

    def _hold(self, rest: bytes) -> bytes:
        self._held += rest
        self._is_inside_passed_line = len(self._held) > self._max_held_bytes
        if not self._is_inside_passed_line:
            return b""
        passed = bytes(self._held)
        self._held.clear()
        return passed


class DocumentModelRewriter(ModelRewriter):
    """Renames the model in a JSON document, which it holds until the end.

    A document that outgrows `max_held_bytes` is renamed as far as it has come then.
    """

    def __init__(self, target: str, incoming: str, max_held_bytes: int = MAX_HELD_DOCUMENT) -> None:
        super().__init__(target, incoming)
        self._max_held_bytes = max_held_bytes
        self._is_past = False

    def feed(self, chunk: bytes, end: bool) -> bytes:
        """Nothing until the end; then the document."""
        if self._is_past:
            return chunk
        if not end and len(self._held) + len(chunk) <= self._max_held_bytes:
            self._held += chunk
            return b""
        renamed = self._renaming.in_document(bytes(self._held) + chunk)
        self._held.clear()
        self._is_past = True
        return renamed


class ChunkModelRewriter(ModelRewriter):
    """Renames the model where a chunk shows it whole, and holds nothing back.

    For body modes in which every chunk has to be answered before the next one comes. Of an event
    stream the lines are renamed that lie in one chunk, of a document what its first chunk has.
    """

    def __init__(self, target: str, incoming: str) -> None:
        super().__init__(target, incoming)
        self._is_document: bool | None = None
        self._is_at_line_start = True

    def feed(self, chunk: bytes, end: bool) -> bytes:
        """`chunk`, renamed where that can be done."""
        if not chunk:
            return chunk
        if self._is_document is None:
            self._is_document = chunk.lstrip().startswith(b"{")
            if self._is_document:
                return self._renaming.in_document(chunk)
        if self._is_document:
            return chunk
        first = 0 if self._is_at_line_start else chunk.find(b"\n") + 1 or len(chunk)
        last = len(chunk) if end else max(first, chunk.rfind(b"\n") + 1)
        self._is_at_line_start = chunk.endswith(b"\n")
        return chunk[:first] + self._renaming.in_lines(chunk[first:last]) + chunk[last:]


def _model_members(document: bytes, start: int) -> Iterator[Member]:
    for member in _CARRIERS.members(document, start):
        if member.name == "model":
            yield member
        else:
            yield from _MODEL.members(document, member.value_start)
