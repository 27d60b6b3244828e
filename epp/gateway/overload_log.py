"""Log lines on requests that are cut short by overload: the first, then one a minute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Literal

import structlog

from epp.support.line_pace import LinePace

log = structlog.get_logger(__name__)

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
        self._paces: defaultdict[tuple[str, Outcome], LinePace] = defaultdict(LinePace)

    def cut_short(self, signal: str, outcome: Outcome) -> None:
        """One more."""
        count = self._paces[signal, outcome].count(self._now())
        if count:
            flag = _FLAGS[signal]
            log.warning(
                "overloaded: requests are cut short", limit=flag, outcome=outcome, count=count
            )
