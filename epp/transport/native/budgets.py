"""What peers may cost: bytes and streams held for all of them, and frames that bring nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.transport.native.request_head import RequestHead

_MOST_HEADS = 256


class HeldBytes:
    """Bytes all connections of one listener hold: half-received messages and unsent answers."""

    __slots__ = ("_little", "_reserve", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._little = limit >> 10
        self._reserve = limit >> 4

    @property
    def is_exceeded(self) -> bool:
        """Whether more is held than may be."""
        return self.used > self.limit

    def is_too_much_for(self, own: int) -> bool:
        """Whether one who holds `own` of it may hold no more. There is a sixteenth on top for those
        who hold little, less than a thousandth: a few who hold the rest must not stop all."""
        return self.used > self.limit and (
            own > self._little or self.used > self.limit + self._reserve
        )


class OpenStreams:
    """Streams of all connections of one listener; each costs 1 to 2 KiB here, and its handler."""

    __slots__ = ("count", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether no more may be opened."""
        return self.count >= self.limit


class HeadCache:
    """Header blocks that mean the same on every connection, and what they mean."""

    __slots__ = ("_heads", "get")

    def __init__(self) -> None:
        self._heads: dict[bytes, RequestHead] = {}
        self.get = self._heads.get

    def __len__(self) -> int:
        return len(self._heads)

    def put(self, block: bytes, head: RequestHead) -> None:
        """Remember one; all others are forgotten when there are too many."""
        if len(self._heads) >= _MOST_HEADS:
            self._heads.clear()
        self._heads[block] = head


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the connections of one listener share."""

    held: HeldBytes
    streams: OpenStreams
    heads: HeadCache = field(default_factory=HeadCache)


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
