"""Reads one HTTP/1.1 answer from bytes as they come; knows no sockets.

It understands what model servers send and nothing else: whatever is unusual is `NotUnderstood`,
never guessed at, since a complete client stands by (decision 22).
"""

from __future__ import annotations

from typing import NamedTuple

from epp.data_layer.http_head import (
    LONGEST_LENGTH,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    Framing,
    NotUnderstood,
    TooLarge,
    around_length,
    framing_of,
)

MAX_CHUNKS = 64 * 1024
"""Of one answer: each costs more than its few bytes, and is read in one go with those beside it."""

_PROTOCOL = b"HTTP/1."
_OK = 200
_LONGEST_CHUNK_LINE = 1024


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes
    is_last: bool
    """Whether no other answer can follow on this connection."""


class AnswerReader:
    """One answer after another; `feed` it what comes, `finish` it when the connection ends."""

    __slots__ = (
        "_around_length",
        "_body_size",
        "_chunk_count",
        "_chunked",
        "_chunks",
        "_framing",
        "_head",
        "_head_bytes",
        "_is_last",
        "_parts",
        "_pending",
        "_size",
        "_status",
        "is_untouched",
    )

    def __init__(self) -> None:
        self._head = b""
        self._around_length = (b"", b"")
        self._framing = Framing(0, None, False, False)
        self._reset()

    def _reset(self) -> None:
        self.is_untouched = True
        """Whether no byte of the next answer has come."""
        self._pending = b""
        self._head_bytes = 0
        self._status = 0
        self._is_last = False
        self._chunked = False
        self._size: int | None = None
        self._chunks = bytearray()
        self._chunk_count = 0
        self._parts: list[bytes | bytearray] = []
        self._body_size = 0

    def feed(self, data: bytes) -> Answer | None:
        """Take in what came; the answer once it is complete.

        Raises `NotUnderstood` or `TooLarge`, after which the connection is of no use.
        """
        if self.is_untouched:
            answer = self._like_the_last(data)
            if answer is not None:
                return answer
            self.is_untouched = False
        if not self._status:
            data = self._pending + data
            rest = self._read_heads(data)
            if rest is None:
                return None
            data = rest
        if self._chunked:
            return self._read_chunks(data)
        self._take(data)
        if self._size is None or self._body_size < self._size:
            return None
        return self._complete(surplus=self._body_size > self._size)

    def _like_the_last(self, data: bytes) -> Answer | None:
        """The answer, if this is all of it and its head is the last one but for the length."""
        before, after = self._around_length
        if not before or not data.startswith(before):
            return None
        start = len(before)
        end = data.find(after, start, start + LONGEST_LENGTH + len(after))
        if end < 0:
            return None
        digits, body = data[start:end], end + len(after)
        if not digits.isdigit() or int(digits) != len(data) - body:
            return None
        status, _, _, is_last = self._framing
        return Answer(status, data[body:], is_last)

    def finish(self) -> Answer | None:
        """The connection has ended: the answer, if that is how its end is told."""
        if self._status and not self._chunked and self._size is None:
            return self._complete(surplus=False)
        return None

    def _read_heads(self, data: bytes) -> bytes | None:
        """What follows the head, which is remembered; None: it is not complete."""
        while True:
            if not data.startswith(_PROTOCOL[: len(data)]):
                raise NotUnderstood("no HTTP/1 answer")
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) + self._head_bytes > MAX_HEAD_BYTES:
                    raise TooLarge(f"more than {MAX_HEAD_BYTES} bytes of headers")
                if b"\n\n" in data:
                    raise NotUnderstood("line ends without CR")
                self._pending = data
                return None
            self._head_bytes += end
            self._read_head(data[:end])
            data = data[end + 4 :]
            if self._status >= _OK:
                self._pending = b""
                return data
            # An interim answer (100, 103): the real one follows.
            self._status = 0
            if self._head_bytes > MAX_HEAD_BYTES:
                raise TooLarge(f"more than {MAX_HEAD_BYTES} bytes of headers")

    def _read_head(self, head: bytes) -> None:
        # Within a second most servers repeat theirs to the byte, the date included.
        if head != self._head:
            self._framing = framing_of(head)
            self._head = head
            self._around_length = around_length(head, self._framing)
        self._status, self._size, self._chunked, self._is_last = self._framing

    def _read_chunks(self, data: bytes) -> Answer | None:
        chunks = self._chunks
        chunks += data
        at = 0
        while (end := chunks.find(b"\r\n", at)) >= 0:
            size = _chunk_size(chunks[at:end])
            if size == 0:
                del chunks[:at]
                return self._read_trailers()
            if self._body_size + size > MAX_BODY_BYTES:
                raise TooLarge(f"more than {MAX_BODY_BYTES} bytes of body")
            start, stop = end + 2, end + 2 + size
            if len(chunks) < stop + 2:
                break
            if chunks[stop : stop + 2] != b"\r\n":
                raise NotUnderstood("end of a chunk")
            self._chunk_count += 1
            if self._chunk_count > MAX_CHUNKS:
                raise TooLarge(f"more than {MAX_CHUNKS} chunks")
            self._take(chunks[start:stop])
            at = stop + 2
        if end < 0 and len(chunks) - at > _LONGEST_CHUNK_LINE:
            # Nobody means that: no other client needs to try.
            raise TooLarge(f"more than {_LONGEST_CHUNK_LINE} bytes of chunk size")
        del chunks[:at]
        return None

    def _read_trailers(self) -> Answer | None:
        # Without trailers the empty line follows the last size at once.
        last = self._chunks.find(b"\r\n\r\n")
        if last >= 0:
            return self._complete(surplus=len(self._chunks) > last + 4)
        if len(self._chunks) > MAX_HEAD_BYTES:
            raise TooLarge(f"more than {MAX_HEAD_BYTES} bytes of trailers")
        return None

    def _take(self, data: bytes | bytearray) -> None:
        if data:
            self._body_size += len(data)
            if self._body_size > MAX_BODY_BYTES:
                raise TooLarge(f"more than {MAX_BODY_BYTES} bytes of body")
            self._parts.append(data)

    def _complete(self, *, surplus: bool) -> Answer:
        parts = self._parts
        body = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        if surplus and self._size is not None:
            body = body[: self._size]
        # Bytes after the end belong to no request of ours: that connection is not trusted again.
        answer = Answer(self._status, body, self._is_last or surplus)
        self._reset()
        return answer


def _chunk_size(line: bytearray) -> int:
    digits = line.partition(b";")[0].strip()
    try:
        if not digits.isalnum() or len(digits) > 8:
            raise ValueError
        return int(digits, 16)
    except ValueError:
        raise NotUnderstood("chunk size") from None
