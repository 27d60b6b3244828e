"""How long to wait after a failure."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Doubles from failure to failure, with jitter; forgets after a time without any."""

    def __init__(
        self,
        *,
        first: float,
        longest: float,
        reset_after: float,
        rng: random.Random,
        now: Callable[[], float],
    ) -> None:
        self._first = first
        self._longest = longest
        self._reset_after = reset_after
        self._rng = rng
        self._now = now
        self._next = first
        self._failed_at = float("-inf")

    def failed(self, at_least: float = 0.0) -> float:
        """The pause after one more failure, in seconds; `at_least` is what the server asks for."""
        if self._now() - self._failed_at > self._reset_after:
            self._next = self._first
        pause = max(self._next, at_least)
        self._next = min(2 * self._next, self._longest)
        pause *= self._rng.uniform(1, 2)
        self._failed_at = self._now() + pause
        return pause
