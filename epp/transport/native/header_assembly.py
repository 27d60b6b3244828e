"""HEADERS and its CONTINUATIONs, put together (RFC 9113 §6.2 and §6.10)."""

from __future__ import annotations

from typing import NamedTuple

from epp.transport.native.frames import (
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    LARGEST_STREAM,
    PADDED,
    WITH_PRIORITY,
    ConnectionFault,
    ErrorCode,
)

_MOST_BLOCK_BYTES = 64 * 1024
_MOST_CONTINUATIONS = 32
_PRIORITY_BYTES = 5


class HeaderBlock(NamedTuple):
    """A whole block."""

    stream_id: int
    end_stream: bool
    depends_on_itself: bool
    block: bytes


class HeaderAssembly:
    """At most one block is being received at a time."""

    __slots__ = (
        "_block",
        "_continuations",
        "_depends_on_itself",
        "_end_stream",
        "_stream_id",
        "is_open",
    )

    def __init__(self) -> None:
        self.is_open = False
        """Whether only a CONTINUATION may come."""
        self._stream_id = 0
        self._end_stream = False
        self._depends_on_itself = False
        self._block = bytearray()
        self._continuations = 0

    def headers(
        self, flags: int, stream_id: int, data: bytes, start: int, end: int
    ) -> HeaderBlock | None:
        """Take a HEADERS frame."""
        if stream_id == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "HEADERS on stream 0")
        if flags & PADDED:
            start, end = unpadded(data, start, end)
        depends_on_itself = False
        if flags & WITH_PRIORITY:
            if end - start < _PRIORITY_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without its priority")
            parent = int.from_bytes(data[start : start + 4], "big") & LARGEST_STREAM
            depends_on_itself = parent == stream_id
            start += _PRIORITY_BYTES
        end_stream = bool(flags & END_STREAM)
        if flags & END_HEADERS:
            return HeaderBlock(stream_id, end_stream, depends_on_itself, data[start:end])
        self.is_open = True
        self._stream_id, self._end_stream = stream_id, end_stream
        self._depends_on_itself = depends_on_itself
        self._block[:] = memoryview(data)[start:end]
        self._continuations = 0
        return None

    def other(
        self, kind: int, flags: int, stream_id: int, data: bytes, start: int, end: int
    ) -> HeaderBlock | None:
        """Take the frame behind an incomplete block."""
        if kind != CONTINUATION or stream_id != self._stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame amid a header block")
        self._continuations += 1
        self._block += memoryview(data)[start:end]
        if self._continuations > _MOST_CONTINUATIONS or len(self._block) > _MOST_BLOCK_BYTES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block without end")
        if not flags & END_HEADERS:
            return None
        whole = HeaderBlock(
            stream_id, self._end_stream, self._depends_on_itself, bytes(self._block)
        )
        self.is_open = False
        self._block.clear()
        return whole


def unpadded(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Where the content of a padded payload is (RFC 9113 §6.1)."""
    if start == end:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a padded frame without its pad length")
    stop = end - data[start]
    start += 1
    if stop < start:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    return start, stop
