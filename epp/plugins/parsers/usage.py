"""Token usage read from responses as they stream by (protocol §7.5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from epp.framework.request_handling import ResponseReader
from epp.framework.usage import Usage
from epp.plugins.parsers.json_values import ABSENT, first_byte
from epp.plugins.parsers.usage_sum import UsageSum
from epp.support.json_members import end_of_container

MAX_TAIL_BYTES = 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
MAX_CANDIDATES = 32
"""Members named usage, at any depth, that are looked at from a document's end."""

_OBJECT_VALUE = re.compile(rb"\s*+:\s*+(?=\{)")
_DONE_LINE = re.compile(rb"^data:[ \t]*+\[DONE\][ \t\r]*+$", re.MULTILINE)


Block: TypeAlias = "dict[str, Any] | None"
"""A `usage` object under the names of the OpenAI or Anthropic APIs."""


class _Carrier(msgspec.Struct, frozen=True, gc=False):
    usage: Raw = ABSENT


class _Event(msgspec.Struct, frozen=True, gc=False):
    usage: Raw = ABSENT
    response: Raw = ABSENT
    message: Raw = ABSENT


_event = msgspec.json.Decoder(_Event)
_carrier = msgspec.json.Decoder(_Carrier)
_object = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class UsageSource:
    """Where an API's responses have their usage."""

    member: bytes
    """Name of the member, with its quotes, that lines and documents without usage lack."""
    of_event: Callable[[bytes], Block]
    """Reads the data of one event that has such a member, at any depth."""
    of_document: Callable[[dict[str, Any]], Block]
    """Reads that member of a document."""


def usage_reader(*, streaming: bool) -> ResponseReader:
    """A reader for one response of the OpenAI or Anthropic APIs."""
    return SseUsageReader() if streaming else JsonUsageReader()


class JsonUsageReader:
    """Reads usage from a JSON document, of which it keeps no more than a tail."""

    def __init__(
        self, max_tail_bytes: int = MAX_TAIL_BYTES, source: UsageSource | None = None
    ) -> None:
        self.streamed_events = 0
        self._source = source or USAGE_MEMBER
        self._max_tail_bytes = max_tail_bytes
        self._tail = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Keep `chunk` as far as the tail reaches back."""
        self._tail += chunk
        excess = len(self._tail) - self._max_tail_bytes
        if excess > 0:
            del self._tail[:excess]

    def finish(self) -> Usage | None:
        """The usage of the document; None if it has none that can be read."""
        total = UsageSum()
        member = _member_of_document(bytes(self._tail).rstrip(), self._source.member)
        total.add(self._source.of_document(member) if member is not None else None)
        return total.result()


class SseUsageReader:
    """Reads usage from an event stream cut anywhere, and counts its events."""

    __slots__ = (
        "_held",
        "_is_overlong",
        "_max_line_bytes",
        "_member",
        "_of_event",
        "_total",
        "streamed_events",
    )

    def __init__(
        self, max_line_bytes: int = MAX_LINE_BYTES, source: UsageSource | None = None
    ) -> None:
        self.streamed_events = 0
        source = source or USAGE_MEMBER
        self._member = source.member
        self._of_event = source.of_event
        self._max_line_bytes = max_line_bytes
        self._held = bytearray()
        self._is_overlong = False
        self._total = UsageSum()

    def feed(self, chunk: bytes) -> None:
        """Read the lines that `chunk` completes."""
        if self._held or not chunk.endswith(b"\n"):
            self._feed_cut(chunk)
            return
        # Once per token: a chunk of whole lines without usage costs five searches.
        self.streamed_events += chunk.count(b"\ndata:") + chunk.startswith(b"data:")
        if b"[DONE]" in chunk:
            self.streamed_events -= len(_DONE_LINE.findall(chunk))
        if self._member in chunk:
            self._read_usage(chunk)

    def finish(self) -> Usage | None:
        """The usage reported in all of the stream; None if there was none."""
        if self._held:
            self._feed_cut(b"\n")
        return self._total.result()

    def _feed_cut(self, chunk: bytes) -> None:
        first = chunk.find(b"\n") + 1
        if not first:
            self._hold(chunk)
            return
        self._hold(chunk[:first])
        line = bytes(self._held)
        self._held.clear()
        self._is_overlong = False
        self.feed(line)
        last = chunk.rfind(b"\n") + 1
        if last > first:
            self.feed(chunk[first:last])
        self._hold(chunk[last:])

    def _hold(self, piece: bytes) -> None:
        """Keep a piece of a line; of one that is too long only what tells an event."""
        if self._is_overlong:
            if piece.endswith(b"\n"):
                self._held += b"\n"
            return
        self._held += piece
        if len(self._held) > self._max_line_bytes:
            self._is_overlong = True
            ending = b"\n" if self._held.endswith(b"\n") else b""
            del self._held[len(b"data:") :]
            self._held += ending

    def _read_usage(self, lines: bytes) -> None:
        position = lines.find(self._member)
        while position >= 0:
            start = lines.rfind(b"\n", 0, position) + 1
            end = lines.index(b"\n", position)
            if lines.startswith(b"data:", start):
                self._total.add(self._of_event(lines[start + 5 : end]))
            position = lines.find(self._member, end)


def _event_usage(text: bytes) -> Block:
    """Usage at the top (chat, Anthropic's delta), of a whole response, of a started message."""
    try:
        event = _event.decode(text)
        for value in (event.usage, event.response, event.message):
            if not _is_object(value):
                continue
            usage = value if value is event.usage else _carrier.decode(value).usage
            if _is_object(usage):
                return _object.decode(usage)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return None


def _member_of_document(tail: bytes, name: bytes) -> dict[str, Any] | None:
    """A top-level member, an object, of a document whose beginning may be missing.

    It belongs to the object that closes last. The key can't be part of a text, where its second
    quote would be escaped, but for an escaped first one.
    """
    position = len(tail)
    for _ in range(MAX_CANDIDATES):
        position = tail.rfind(name, 0, position)
        if position < 0:
            return None
        match = _OBJECT_VALUE.match(tail, position + len(name))
        if match is None or tail[position - 1 : position] == b"\\":
            continue
        end = end_of_container(tail, match.end())
        if end > 0 and end_of_container(tail, end - 1) == len(tail):
            try:
                return _object.decode(tail[match.end() : end])
            except (msgspec.MsgspecError, RecursionError):
                return None
    return None


def _is_object(value: Raw) -> bool:
    return first_byte(value) == b"{"


USAGE_MEMBER = UsageSource(b'"usage"', _event_usage, lambda usage: usage)
"""The OpenAI and Anthropic APIs."""
