"""Scores from how far predicted latencies stay below their targets (scheduling §10.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_EQUAL = 1e-9
_STEPS = 100


class Headroom(NamedTuple):
    """Target less prediction, in milliseconds; below zero the target will be missed."""

    ttft: float = 0.0
    tpot: float = 0.0

    @property
    def is_negative(self) -> bool:
        """Whether any target will be missed."""
        return self.ttft < 0 or self.tpot < 0


class HeadroomWeights(NamedTuple):
    """Shares of the two latencies in a score."""

    ttft: float
    tpot: float

    @classmethod
    def normalized(cls, ttft: float, tpot: float) -> HeadroomWeights:
        """The two as shares of 1; without any weight all of it is the first token's."""
        total = ttft + tpot
        return cls(ttft / total, tpot / total) if total > 0 else cls(1.0, 0.0)


def score_headrooms(
    headrooms: Sequence[Headroom], weights: HeadroomWeights, *, most: bool
) -> list[float]:
    """0.01 to 1.01, in steps of 0.01: best with the least distance from the targets, or the most.

    Of two latencies the one that is the same everywhere does not count.
    """
    ttft, ttft_differs = _scaled([abs(headroom.ttft) for headroom in headrooms])
    tpot, tpot_differs = _scaled([abs(headroom.tpot) for headroom in headrooms])
    a, b = weights
    if ttft_differs != tpot_differs:
        a, b = (1.0, 0.0) if ttft_differs else (0.0, 1.0)
    distances = [a * first + b * later for first, later in zip(ttft, tpot, strict=True)]
    if not most:
        distances = [1.0 - distance for distance in distances]
    return [(int(distance * _STEPS) + 1) / _STEPS for distance in distances]


def most_hopeful(headrooms: Sequence[Headroom]) -> list[int]:
    """Indexes of those that miss the fewest targets, all missing one: TPOT is the lesser evil."""
    tpot_only = [index for index, headroom in enumerate(headrooms) if headroom.ttft >= 0]
    ttft_only = [index for index, headroom in enumerate(headrooms) if headroom.tpot >= 0]
    return tpot_only or ttft_only or list(range(len(headrooms)))


def _scaled(values: Sequence[float]) -> tuple[list[float], bool]:
    least = min(values)
    span = max(values) - least
    if span <= _EQUAL:
        return [0.5] * len(values), False
    return [(value - least) / span for value in values], True
