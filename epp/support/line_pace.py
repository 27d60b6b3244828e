"""How often the log tells of what may come in floods: the first at once, then a line a minute."""

from __future__ import annotations

PAUSE_SECONDS = 60.0


class LinePace:
    """Of one kind of line."""

    __slots__ = ("_due", "_untold")

    def __init__(self) -> None:
        self._due = float("-inf")
        self._untold = 0

    def count(self, now: float, *, at_once: bool = False) -> int:
        """One more; of how many a line is to tell now, 0 if none is due. `at_once`: one is."""
        self._untold += 1
        if now < self._due and not at_once:
            return 0
        untold, self._untold = self._untold, 0
        self._due = now + PAUSE_SECONDS
        return untold
