"""How many connections scraping may hold, of the files that a process may have open.

Without a bound a pool larger than the limit takes all of them, and no gateway gets through.
"""

from __future__ import annotations

REFUSED = "no connection is free: the limit of open files is too low for this pool"

_FEWEST = 8
_KEPT_FREE = 32
"""For listeners, gateways, pages and files."""


def connections_within(open_files_limit: int) -> int:
    """How many of these files may be connections of scraping."""
    return max(_FEWEST, open_files_limit * 3 // 4 - _KEPT_FREE)


class ConnectionBudget:
    """Connections to be had. When they are few, nobody keeps one that others wait for."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._free = most
        self._wanted = 0

    def take(self) -> bool:
        """Whether there is one; it is to be given back then."""
        if not self._free:
            self._wanted = min(self._wanted + 1, self.most)
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        """A connection is closed."""
        self._free += 1

    def is_wanted(self) -> bool:
        """Whether one that has just been used is to be closed for somebody else; asked once."""
        if not self._wanted:
            return False
        self._wanted -= 1
        return True
