"""Bounds on what clients can put into labels: every distinct value is a series for ever."""

from __future__ import annotations

OTHER = "other"
MAX_VALUE_LENGTH = 256


class LabelCap:
    """Lets through the first `limit` distinct values; what comes later is `other`.

    The empty value stays empty and takes no slot. Values longer than `MAX_VALUE_LENGTH` are
    `other` at once, and text that UTF-8 can't carry is replaced (decision 31).
    """

    __slots__ = ("_limit", "_seen")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def admit(self, value: str) -> str:
        """The label value that stands for `value`."""
        if not value or value in self._seen:
            return value
        if len(value) > MAX_VALUE_LENGTH:
            return OTHER
        carried = value.encode("utf-8", "replace").decode()
        if carried in self._seen:
            return carried
        if len(self._seen) >= self._limit:
            return OTHER
        self._seen.add(carried)
        return carried
