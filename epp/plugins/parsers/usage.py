"""Token usage read from responses as they stream by (protocol §7.5)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from epp.framework.request_handling import ResponseReader
from epp.framework.usage import Usage
from epp.plugins.parsers.json_values import ABSENT, first_byte
from epp.support.json_members import end_of_container

MAX_TAIL_BYTES = 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
MAX_CANDIDATES = 32
"""Members named usage, at any depth, that are looked at from a document's end."""

MAX_TOKENS = 10**18
"""Largest count believed. Beyond a float's range, which JSON can reach, sums and rates fail."""

_USAGE = b'"usage"'
_USAGE_KEY = re.compile(rb'"usage"\s*+:\s*+(?=\{)')
_DONE_LINE = re.compile(rb"^data:[ \t]*+\[DONE\][ \t\r]*+$", re.MULTILINE)
_DIGITS = re.compile(r"\s*+\d{1,18}\s*+", re.ASCII)


def usage_reader(*, streaming: bool) -> ResponseReader:
    """A reader for one response of the OpenAI or Anthropic APIs."""
    return SseUsageReader() if streaming else JsonUsageReader()


class _Carrier(msgspec.Struct, frozen=True, gc=False):
    usage: Raw = ABSENT


class _Event(msgspec.Struct, frozen=True, gc=False):
    usage: Raw = ABSENT
    response: Raw = ABSENT
    message: Raw = ABSENT


_event = msgspec.json.Decoder(_Event)
_carrier = msgspec.json.Decoder(_Carrier)
_object = msgspec.json.Decoder(dict[str, Any])


class UsageSum:
    """The usage of one response, put together from the blocks that report parts of it."""

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._reported_total = 0

    def add(self, block: dict[str, Any] | None) -> None:
        """Take a `usage` object, if there is one: what is not zero replaces what was known."""
        if block is None:
            return
        usage = self._usage = self._usage or Usage()
        prompt = _first_count(block, ("prompt_tokens", "input_tokens"))
        completion = _first_count(block, ("completion_tokens", "output_tokens"))
        usage.prompt_tokens = prompt or usage.prompt_tokens or prompt
        usage.completion_tokens = completion or usage.completion_tokens or completion
        cached = _cached_count(block)
        if cached is not None:
            usage.cached_tokens = cached
        total = _first_count(block, ("total_tokens",))
        if total and prompt and completion:
            self._reported_total = total

    def result(self) -> Usage | None:
        """All of it; the total is the reported one, else the sum of what was reported."""
        usage = self._usage
        if usage is None:
            return None
        parts = [n for n in (usage.prompt_tokens, usage.completion_tokens) if n is not None]
        usage.total_tokens = self._reported_total or (sum(parts) if parts else None)
        return usage


class JsonUsageReader:
    """Reads usage from a JSON document, of which it keeps no more than a tail."""

    def __init__(self, max_tail_bytes: int = MAX_TAIL_BYTES) -> None:
        self.streamed_events = 0
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
        total.add(_document_usage(bytes(self._tail).rstrip()))
        return total.result()


class SseUsageReader:
    """Reads usage from an event stream cut anywhere, and counts its events."""

    __slots__ = ("_held", "_is_overlong", "_max_line_bytes", "_total", "streamed_events")

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.streamed_events = 0
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
        if _USAGE in chunk:
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
        position = lines.find(_USAGE)
        while position >= 0:
            start = lines.rfind(b"\n", 0, position) + 1
            end = lines.index(b"\n", position)
            if lines.startswith(b"data:", start):
                self._total.add(_event_usage(lines[start + 5 : end]))
            position = lines.find(_USAGE, end)


def _event_usage(text: bytes) -> dict[str, Any] | None:
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


def _document_usage(tail: bytes) -> dict[str, Any] | None:
    """The top-level usage of a document whose beginning may be missing.

    It belongs to the object that closes last. The key can't be part of a text, where its second
    quote would be escaped, but for an escaped first one.
    """
    position = len(tail)
    for _ in range(MAX_CANDIDATES):
        position = tail.rfind(_USAGE, 0, position)
        if position < 0:
            return None
        match = _USAGE_KEY.match(tail, position)
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


def _first_count(block: dict[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        value = block.get(name)
        if value is not None:
            return _count(value)
    return None


def _cached_count(block: dict[str, Any]) -> int | None:
    for name in ("prompt_tokens_details", "input_tokens_details"):
        details = block.get(name)
        if isinstance(details, dict) and details.get("cached_tokens") is not None:
            return _count(details["cached_tokens"])
    return _first_count(block, ("cache_read_input_tokens",))


def _count(value: object) -> int:
    """A number of tokens; text is read as a number, everything else counts 0."""
    if isinstance(value, str):
        return int(value) if _DIGITS.fullmatch(value) else 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return min(max(0, int(value)), MAX_TOKENS)
