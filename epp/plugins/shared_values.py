"""What producers say of endpoints: many share one object, so that there is little to compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def computed_once(compute: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """What `compute` makes of each of `values` (never empty), called once for each object."""
    usual = values[0]
    others = {id(value): value for value in values if value is not usual}
    result = compute(usual)
    if not others:
        return [result] * len(values)
    results = {key: compute(value) for key, value in others.items()}
    return [result if value is usual else results[id(value)] for value in values]
