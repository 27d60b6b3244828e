"""Whether pages that are of use hold all that was expected on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.data_layer.readability_log import ReadabilityLog
    from epp.framework.endpoint import Endpoint

SETTLED_SECONDS = 10.0
"""How long nothing is missing on pages that are complete again, and the least time between lines
on one page: a series may come and go with every request."""


class Completeness:
    """Follows the pages of one source of one endpoint, and tells what is missing on them once."""

    __slots__ = ("_missed_at", "_report", "_told", "_told_at")

    def __init__(self, report: ReadabilityLog) -> None:
        self._report = report
        self._told = ""
        self._told_at = 0.0
        self._missed_at = 0.0

    def judge(self, endpoint: Endpoint, source: str, missing: str, now: float) -> None:
        """A page was read, apart from `missing`."""
        if missing:
            self._missed_at = now
            is_due = not self._told or now - self._told_at >= SETTLED_SECONDS
            if missing != self._told and is_due:
                self._told, self._told_at = missing, now
                self._report.incomplete(endpoint, source, missing, now)
        elif self._told and now - self._missed_at >= SETTLED_SECONDS:
            self._told = ""
            self._report.complete(endpoint, source, now)
