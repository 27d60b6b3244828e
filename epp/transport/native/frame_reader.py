"""Cuts what the peer sent into frames, without copying payloads."""

from __future__ import annotations

import time
from collections.abc import Callable

from epp.transport.native.frames import (
    DEFAULT_FRAME_BYTES,
    HEADER,
    HEADER_BYTES,
    LARGEST_STREAM,
    PREFACE,
    ConnectionFault,
    ErrorCode,
)

OnFrame = Callable[[int, int, int, bytes, int, int], None]
"""Type, flags, stream, and the payload as a buffer with its start and end."""
_LOOK_BYTES = 16 * 1024
"""Between two looks at the clock: a dozen requests of 1 KB, which take some milliseconds."""
TURN_SECONDS = 0.005


class FrameReader:
    """Keeps at most one incomplete frame."""

    __slots__ = ("_clock", "_on_frame", "_partial", "has_preface")

    def __init__(self, on_frame: OnFrame, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_frame = on_frame
        self._clock = clock
        self._partial = bytearray()
        self.has_preface = False

    def feed(self, data: bytes) -> bytes:
        """Hand over the frames that are complete; returns what is to be fed in another turn.

        A gateway with hundreds of requests at once sends a quarter of a megabyte of them in one
        read. To answer them all would keep everybody else waiting, scrapes among them.
        """
        at = 0
        if not self.has_preface:
            at = self._read_preface(data)
        elif self._partial:
            at = self._complete(data, 0)
        end = len(data)
        look, until = end, 0.0
        if end - at > _LOOK_BYTES:
            look, until = at + _LOOK_BYTES, self._clock() + TURN_SECONDS
        on_frame, unpack = self._on_frame, HEADER.unpack_from
        while end - at >= HEADER_BYTES:
            high, low, kind, flags, stream_id = unpack(data, at)
            size = high << 8 | low
            if size > DEFAULT_FRAME_BYTES:
                raise _too_large()
            start = at + HEADER_BYTES
            stop = start + size
            if stop > end:
                break
            on_frame(kind, flags, stream_id & LARGEST_STREAM, data, start, stop)
            at = stop
            if at > look:
                if self._clock() > until:
                    return data[at:]
                look = at + _LOOK_BYTES
        if at < end:
            self._partial += memoryview(data)[at:]
        return b""

    def _read_preface(self, data: bytes) -> int:
        """RFC 9113 §3.4: anything else is no HTTP/2."""
        partial = self._partial
        at = len(PREFACE) - len(partial)
        partial += data[:at]
        if not PREFACE.startswith(partial):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this port speaks HTTP/2 only")
        if len(partial) == len(PREFACE):
            self.has_preface = True
            partial.clear()
        return at

    def _complete(self, data: bytes, at: int) -> int:
        """Finish the incomplete frame; return where in `data` the next one begins."""
        partial = self._partial
        missing = HEADER_BYTES - len(partial)
        if missing > 0:
            partial += data[at : at + missing]
            at += missing
            if len(partial) < HEADER_BYTES:
                return len(data)
        high, low, kind, flags, stream_id = HEADER.unpack_from(partial)
        size = high << 8 | low
        if size > DEFAULT_FRAME_BYTES:
            raise _too_large()
        missing = HEADER_BYTES + size - len(partial)
        partial += memoryview(data)[at : at + missing]
        at += missing
        if at > len(data):
            return len(data)
        whole = bytes(partial)
        partial.clear()
        self._on_frame(kind, flags, stream_id & LARGEST_STREAM, whole, HEADER_BYTES, len(whole))
        return at


def _too_large() -> ConnectionFault:
    """RFC 9113 §4.2 lets any frame over the limit end the connection."""
    return ConnectionFault(
        ErrorCode.FRAME_SIZE_ERROR, "a frame larger than SETTINGS_MAX_FRAME_SIZE"
    )
