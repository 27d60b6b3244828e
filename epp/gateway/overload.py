"""Whether this process has more on its hands than it may: streams, buffered bytes, a late loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from epp.gateway.overload_log import Outcome, OverloadLog

if TYPE_CHECKING:
    from epp.observability.metrics import Metrics

HARD_FACTOR = 1.5
"""The second limit of decision 1, as a multiple of the first."""
_ROOM_SHARE = 16
"""Part of the buffered bytes that is made free at a time, so that it is seldom looked for."""
_LAG_SAMPLES = 3
_LAG_INTERVAL_SECONDS = 0.1


class Pressure(IntEnum):
    """How far over its limits the process is."""

    NONE = 0
    HIGH = 1
    """Over a limit: FailClose rejects, FailOpen picks without parsing."""
    EXTREME = 2
    """Over `HARD_FACTOR` times a limit: both reject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadLimits:
    """Where pressure begins. Zero switches a limit off."""

    streams: int = 20_000
    buffered_bytes: int = 1 << 30
    loop_lag_seconds: float = 1.0


class LoadGuard:
    """Counts what is held and says how much pressure there is."""

    def __init__(
        self,
        limits: OverloadLimits,
        metrics: Metrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._metrics = metrics
        self._now = now
        self._lags: deque[float] = deque([0.0] * _LAG_SAMPLES, maxlen=_LAG_SAMPLES)
        self._lag = 0.0
        """The least of the last samples: one long turn of the loop is no overload."""
        self._log = OverloadLog(now)
        self.streams = 0
        self.buffered_bytes = 0
        self.make_room: Callable[[int], None] = lambda _: None
        """Ends requests that hold as many bytes, as far as there are such requests."""

    def hold(self, size: int) -> None:
        """Count bytes that were taken from a gateway and not yet given back."""
        self.buffered_bytes += size

    def give_back(self, size: int) -> None:
        """Count them out again."""
        self.buffered_bytes -= size

    def pressure(self) -> tuple[Pressure, str]:
        """The worst pressure and the signal it comes from."""
        limits = self._limits
        worst, signal = Pressure.NONE, ""
        for value, limit, name in (
            (self.streams, limits.streams, "streams"),
            (self.buffered_bytes, limits.buffered_bytes, "buffered-bytes"),
            (self._lag, limits.loop_lag_seconds, "loop-lag"),
        ):
            if limit and value > limit and worst is not Pressure.EXTREME:
                over = value > limit * HARD_FACTOR
                worst, signal = (Pressure.EXTREME if over else Pressure.HIGH), name
        return worst, signal

    def buffer_pressure(self) -> tuple[Pressure, str]:
        """Pressure by buffered bytes alone: for a request that is already being read."""
        limit = self._limits.buffered_bytes
        if not limit or self.buffered_bytes <= limit:
            return Pressure.NONE, ""
        over = self.buffered_bytes > limit * HARD_FACTOR
        return (Pressure.EXTREME if over else Pressure.HIGH), "buffered-bytes"

    def pressure_left(self) -> tuple[Pressure, str]:
        """The same, when those who hold most have made room."""
        limit = self._limits.buffered_bytes
        if not limit or self.buffered_bytes <= limit:
            return Pressure.NONE, ""
        self.make_room(self.buffered_bytes - limit + limit // _ROOM_SHARE)
        return self.buffer_pressure()

    def cut_short(self, signal: str, outcome: Outcome) -> None:
        """Count a request that `signal` took a regular decision from, and tell of it."""
        self._metrics.overloaded(signal, outcome)
        self._log.cut_short(signal, outcome)

    async def run(self) -> None:
        """Measure how late the event loop calls back, for ever."""
        while True:
            due = self._now() + _LAG_INTERVAL_SECONDS
            await asyncio.sleep(_LAG_INTERVAL_SECONDS)
            self.record_lag(max(self._now() - due, 0.0))

    def record_lag(self, seconds: float) -> None:
        """Take one sample of the loop's lateness."""
        self._lags.append(seconds)
        self._lag = min(self._lags)
        self._metrics.event_loop_lag_seconds.set(seconds)
        self._metrics.buffered_bytes.set(self.buffered_bytes)
