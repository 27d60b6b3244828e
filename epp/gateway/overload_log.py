"""Log lines on requests that are cut short by overload: the first, then one a minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import structlog

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 60.0

Outcome = Literal["picked", "rejected"]
"""Sent to an endpoint unread, or answered with an error."""
_FLAGS = {
    "streams": "--max-streams",
    "buffered-bytes": "--max-buffered-bytes",
    "loop-lag": "--max-loop-lag",
}
"""Of the limits, by signal."""


class OverloadLog:
    """Tells which limit cuts how many requests short, and in which way."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._due: dict[tuple[str, Outcome], float] = {}
        self._untold: dict[tuple[str, Outcome], int] = {}

    def cut_short(self, signal: str, outcome: Outcome) -> None:
        """One more."""
        key = signal, outcome
        requests = self._untold.get(key, 0) + 1
        now = self._now()
        if now < self._due.get(key, now):
            self._untold[key] = requests
            return
        self._due[key], self._untold[key] = now + PAUSE_SECONDS, 0
        flag = _FLAGS[signal]
        log.warning(
            "overloaded: requests are cut short", limit=flag, outcome=outcome, count=requests
        )
