"""Time that passes only when a test says so."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

_TURNS = 10


class VirtualClock:
    """A simulator's clock; starts at 0, and at `UNIX_START` for the calendar."""

    UNIX_START = 1_700_000_000.0

    def __init__(self) -> None:
        self._now = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def unix_time(self) -> float:
        return self.UNIX_START + self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        await woken

    @property
    def sleepers(self) -> int:
        """How many are asleep."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking sleepers in order; each acts before the next one wakes."""
        end = self._now + seconds
        await self._let_others_act()
        while self._sleepers and self._sleepers[0][0] <= end + 1e-9:
            due, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue
            self._now = max(self._now, due)
            woken.set_result(None)
            await self._let_others_act()
        self._now = end

    async def _let_others_act(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
