"""Bits of masks that are given away, and given again once nothing is left of them in any mask."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush


class MaskSlots:
    """Who has a slot has one bit of every mask.

    A slot that is retired means nothing from then on. It is free for another one as soon as whoever
    wipes such bits out of the masks has been through all of them.
    """

    def __init__(self) -> None:
        self.width = 0
        """How many there are, which is the width of the masks."""
        self.live = 0
        """The bits that mean something."""
        self.changes = 0
        """Grows whenever another bit means something."""
        self._free: list[int] = []
        self._retired: deque[tuple[int, int]] = deque()
        """Slots that are not live, and the round after which they are free."""
        self._round = 0

    @property
    def retired(self) -> int:
        """How many slots are neither live nor free."""
        return len(self._retired)

    def take(self) -> int:
        """A slot, as a mask with its one bit."""
        if self._free:
            slot = heappop(self._free)
        else:
            slot = self.width
            self.width += 1
        self.changes += 1
        self.live |= 1 << slot
        return 1 << slot

    def retire(self, bit: int) -> None:
        """Give a slot back, if it is one."""
        if bit:
            self.changes += 1
            self.live ^= bit
            # The present round has been through some of the masks before.
            self._retired.append((bit.bit_length() - 1, self._round + 2))

    def end_round(self) -> None:
        """All masks have been looked at since the last time."""
        self._round += 1
        while self._retired and self._retired[0][1] <= self._round:
            heappush(self._free, self._retired.popleft()[0])
