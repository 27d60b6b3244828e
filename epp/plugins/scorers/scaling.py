"""Scores from numbers that mean something only beside those of the other candidates."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite


def least_is_best(values: Sequence[float]) -> list[float]:
    """1 for the least of `values`, 0 for the greatest, in proportion between; equals are all 1."""
    most = max(values)
    span = most - min(values)
    if not span:
        return [1.0] * len(values)
    return [(most - value) / span for value in values]


def greatest_is_best(values: Sequence[float]) -> list[float]:
    """1 for the greatest of `values`, 0 for the least, in proportion between; equals are all 1."""
    least = min(values)
    span = max(values) - least
    if not span:
        return [1.0] * len(values)
    return [(value - least) / span for value in values]


def scaled_where_known(
    values: Sequence[float | None], *, least_first: bool, unknown: float
) -> list[float]:
    """Scores of the values there are, by one of the two rules above; `unknown` for the others."""
    known = [value for value in values if value is not None and isfinite(value)]
    if not known:
        return [unknown] * len(values)
    scores = least_is_best(known) if least_first else greatest_is_best(known)
    if len(known) == len(values):
        return scores
    following = iter(scores)
    return [
        unknown if value is None or not isfinite(value) else next(following) for value in values
    ]
