"""The time a simulated server lives in."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and lets it pass."""

    def now(self) -> float:
        """Seconds that only ever grow."""

    def unix_time(self) -> float:
        """Seconds since 1970."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; others run meanwhile, also when it is 0."""


class SystemClock:
    """The machine's time."""

    def now(self) -> float:
        return time.monotonic()

    def unix_time(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
