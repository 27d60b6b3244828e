"""A clock in the hands of a test."""

from __future__ import annotations


class Clock:
    """Stands still until it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
