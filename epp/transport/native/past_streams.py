"""Streams that are not open: those to come, and those that ended before the peer knew."""

from __future__ import annotations

from array import array

from epp.transport.native.frames import ConnectionFault, ErrorCode, StreamFault

_SLOTS = 4096
_ID_BYTES = 4


class PastStreams:
    """Knows the last one, and of the 4,096 before it those for which frames may be under way.

    It takes 16 KiB whatever the peer does.
    """

    __slots__ = ("_not_wanted", "last_id")

    def __init__(self) -> None:
        self.last_id = 0
        """Of all that the peer has opened."""
        self._not_wanted = array("I", bytes(_SLOTS * _ID_BYTES))

    def add(self, stream_id: int) -> None:
        """We ended one, and the peer may not know: frames for it are to be ignored."""
        self._not_wanted[stream_id // 2 % _SLOTS] = stream_id

    def is_idle(self, stream_id: int) -> bool:
        """Whether it was never opened (RFC 9113 §5.1)."""
        return stream_id > self.last_id or stream_id % 2 == 0

    def check_not_idle(self, stream_id: int) -> None:
        """RFC 9113 §5.1: on a stream that was never opened there is nothing to say."""
        if self.is_idle(stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame on an idle stream")

    def check_late(self, stream_id: int, *, is_headers: bool) -> None:
        """Whether a frame for a stream that has ended can be ignored (RFC 9113 §5.1)."""
        if self._not_wanted[stream_id // 2 % _SLOTS] == stream_id:
            return
        if is_headers:
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, "HEADERS on a closed stream")
        raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED, "a frame on a closed stream")
