"""Streams that ended before the peer knew: more may come for them."""

from __future__ import annotations

from array import array

_SLOTS = 4096
_ID_BYTES = 4


class RecentStreams:
    """At least those among the last 4,096 streams of the peer, in 16 KiB whatever it does."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids = array("I", bytes(_SLOTS * _ID_BYTES))

    def __contains__(self, stream_id: int) -> bool:
        return self._ids[stream_id // 2 % _SLOTS] == stream_id

    def add(self, stream_id: int) -> None:
        """Remember one in the place of one that is at least 4,096 streams older."""
        self._ids[stream_id // 2 % _SLOTS] = stream_id
