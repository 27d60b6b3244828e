"""Which endpoints take longer for the same work than the others do, judged by their answers."""

from __future__ import annotations

from collections.abc import Sequence

GAIN = 0.1
DEAD_BAND = 1.5
"""How many times longer than usual something takes before it counts."""
FORGOTTEN_AFTER_SECONDS = 60.0
"""After so long without an answer an endpoint is tried as if it were new: it may have recovered,
and who is avoided gives no answers that would tell."""


class MovingAverage:
    """An average in which older values count less; of the first few it is the mean."""

    __slots__ = ("_count", "at", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.at = float("-inf")
        """When the last value came."""
        self._count = 0

    def add(self, value: float, now: float) -> None:
        """Take in one value."""
        if now - self.at > FORGOTTEN_AFTER_SECONDS:
            self._count = 0
        self._count += 1
        self.value += max(GAIN, 1 / self._count) * (value - self.value)
        self.at = now


class Pace:
    """What one endpoint takes for the tokens of prompts and for those of answers."""

    __slots__ = ("decode", "prefill")

    def __init__(self) -> None:
        self.prefill = MovingAverage()
        self.decode = MovingAverage()


def slowness_of(paces: Sequence[Pace], now: float) -> list[float]:
    """How many times longer than usual each takes for what it is worst at; 1: not remarkably.

    Usual is the lower median of `paces`, so that of two endpoints the faster one sets it.
    """
    oldest = now - FORGOTTEN_AFTER_SECONDS
    prefill = _relative([pace.prefill for pace in paces], oldest)
    decode = _relative([pace.decode for pace in paces], oldest)
    return list(map(max, prefill, decode))


def _relative(averages: list[MovingAverage], oldest: float) -> list[float]:
    known = sorted([average.value for average in averages if average.at >= oldest])
    usual = known[(len(known) - 1) // 2] if known else 0.0
    limit = usual * DEAD_BAND
    if usual <= 0 or known[-1] < limit:
        return [1.0] * len(averages)
    return [
        average.value / usual if average.at >= oldest and average.value >= limit else 1.0
        for average in averages
    ]
