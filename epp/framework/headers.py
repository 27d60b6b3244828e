"""HTTP headers of one message: a multi-map of bytes, and the changes made to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

_NAME = re.compile(r"[!-~]+")


class Headers:
    """Lower-case names to values as received; never fails on bytes that are not UTF-8.

    `get` gives the last value of a name. `set` and `remove` change what later readers see and
    are remembered in `changes` (None: removed), which is what is sent to the gateway.
    """

    __slots__ = ("_items", "_last", "changes")

    def __init__(self, items: Iterable[tuple[str, bytes]] = ()) -> None:
        self._items = list(items)
        self._last = dict(self._items)
        self.changes: dict[str, bytes | None] = {}

    def get(self, name: str) -> str | None:
        """The last value of `name` as text; what is not UTF-8 is replaced."""
        value = self._last.get(name)
        return None if value is None else value.decode("utf-8", "replace")

    def __contains__(self, name: object) -> bool:
        return name in self._last

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return iter(self._items)

    def set(self, name: str, value: str | bytes) -> None:
        """Replace every value of `name`; raises where no gateway would accept what is given."""
        raw = value.encode() if isinstance(value, str) else value
        is_text = isinstance(raw, bytes)  # a plugin of a stranger may give anything
        if not is_text or b"\n" in raw or b"\r" in raw or b"\0" in raw:
            raise ValueError(f"header {name!r}: a value is text or bytes, without line breaks")
        _check_name(name)
        self._items = [item for item in self._items if item[0] != name]
        self._items.append((name, raw))
        self._last[name] = raw
        self.changes[name] = raw

    def remove(self, name: str) -> None:
        """Drop every value of `name`; harmless when there is none. Raises for what is no name."""
        _check_name(name)
        if self._last.pop(name, None) is not None:
            self._items = [item for item in self._items if item[0] != name]
        self.changes[name] = None

    def copy(self) -> Headers:
        """The same headers and changes, to be changed apart from these."""
        copy = Headers(self._items)
        copy.changes = dict(self.changes)
        return copy

    def as_mapping(self) -> Mapping[str, bytes]:
        """Names to their last values."""
        return self._last


def _check_name(name: object) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError(f"header {name!r}: a name is printable ASCII without blanks")
