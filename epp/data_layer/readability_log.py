"""Log lines on pages that stop being readable or complete, and on those that are back
(pitfall 30)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint

log = structlog.get_logger(__name__)

LINES_PER_WINDOW = 20
WINDOW_SECONDS = 10.0


class ReadabilityLog:
    """One line for each change, as long as there are few; what is too much is summed up."""

    def __init__(self) -> None:
        self._window_end = float("-inf")
        self._lines = 0
        self._lost = 0
        self._back = 0
        self._incomplete = 0

    def lost(self, endpoint: Endpoint, source: str, reason: str, now: float) -> None:
        """A page has not been readable for too long."""
        if self._may_write(now):
            log.warning(
                "endpoint can't be scraped", endpoint=str(endpoint), source=source, reason=reason
            )
        else:
            self._lost += 1

    def back(self, endpoint: Endpoint, source: str, now: float) -> None:
        """It is readable again."""
        if self._may_write(now):
            log.info("endpoint can be scraped again", endpoint=str(endpoint), source=source)
        else:
            self._back += 1

    def incomplete(self, endpoint: Endpoint, source: str, problem: str, now: float) -> None:
        """Something that was expected on a page is not there, or can't be read."""
        if self._may_write(now):
            log.warning(
                "page can be read in part only",
                endpoint=str(endpoint),
                source=source,
                problem=problem,
            )
        else:
            self._incomplete += 1

    def complete(self, endpoint: Endpoint, source: str, now: float) -> None:
        """Nothing has been missing on the page for a while."""
        if self._may_write(now):
            log.info("page can be read completely again", endpoint=str(endpoint), source=source)
        else:
            self._back += 1

    def sum_up(self, now: float) -> None:
        """Tell of what was left out, once the window is over."""
        if (self._lost or self._back or self._incomplete) and now >= self._window_end:
            log.warning(
                "scraping of more endpoints changed",
                not_scraped=self._lost,
                incomplete=self._incomplete,
                again=self._back,
            )
            self._lost = self._back = self._incomplete = 0

    def _may_write(self, now: float) -> bool:
        if now >= self._window_end:
            self.sum_up(now)
            self._window_end = now + WINDOW_SECONDS
            self._lines = 0
        self._lines += 1
        return self._lines <= LINES_PER_WINDOW
