"""What a peer may cost: bytes held for it, and frames that bring nothing."""

from __future__ import annotations

from collections.abc import Callable


class HeldBytes:
    """Bytes all connections of one listener hold: half-received messages and unsent answers."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether more is held than may be."""
        return self.used > self.limit


class Allowance:
    """A bucket of tokens that time fills; the clock is read only when it is empty."""

    __slots__ = ("_capacity", "_clock", "_filled_at", "_per_second", "left")

    def __init__(self, capacity: int, per_second: float, clock: Callable[[], float]) -> None:
        self._capacity = capacity
        self._per_second = per_second
        self._clock = clock
        self._filled_at = clock()
        self.left: float = capacity

    def spend(self, tokens: int = 1) -> bool:
        """Take tokens; False when there are not enough."""
        self.left -= tokens
        if self.left < 0:
            now = self._clock()
            earned = (now - self._filled_at) * self._per_second
            self._filled_at = now
            self.left = min(self.left + earned, self._capacity)
        return self.left >= 0
