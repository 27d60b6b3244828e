"""Streams that ended before the peer knew: more may come for them."""

from __future__ import annotations

from collections import OrderedDict

_REMEMBERED = 4096


class RecentStreams:
    """The last ones."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._ids

    def add(self, stream_id: int) -> None:
        """Remember one, and forget the oldest."""
        self._ids[stream_id] = None
        if len(self._ids) > _REMEMBERED:
            self._ids.popitem(last=False)
