"""One source of one endpoint, asked again and again, never twice at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epp.data_layer.completeness import Completeness
from epp.data_layer.page import Page, PageOpener, PageReader
from epp.data_layer.settings import LONGEST_PAUSE_SECONDS
from epp.data_layer.staleness import stale_after
from epp.data_layer.timetable import Appointment, Timetable
from epp.support.plugin_faults import PLUGIN_FAULTS

if TYPE_CHECKING:
    from epp.data_layer.polled_source import PolledSource, Reading
    from epp.data_layer.readability_log import ReadabilityLog
    from epp.framework.data_layer import HttpTarget
    from epp.framework.endpoint import Endpoint

_MOST_DOUBLINGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PollContext:
    """What all polls share."""

    pages: PageOpener
    timetable: Timetable
    report: ReadabilityLog
    timeout: float
    rng: random.Random
    now: Callable[[], float]


class Poll:
    """Asks at points of a grid that has a phase of its own, so that a pool is not asked at once.

    Timeouts and staleness are judged by `check`, which somebody calls all the time: a timer for
    each request would cost as much as the request.
    """

    __slots__ = (
        "_appointment",
        "_asked_at",
        "_attributes_until",
        "_completeness",
        "_context",
        "_failures",
        "_page",
        "_phase",
        "_target",
        "_written",
        "endpoint",
        "fresh_until",
        "interval",
        "is_readable",
        "last_error",
        "source",
    )

    def __init__(
        self, endpoint: Endpoint, source: PolledSource, context: PollContext, phase: float
    ) -> None:
        self.endpoint = endpoint
        self.source = source
        self.interval = source.interval
        """The pause in force; longer than the source's while the server is slow."""
        self.last_error = ""
        """Why the last page is missing, or what was missing on it."""
        self.fresh_until = float("inf")
        """When data, or the lack of them, become a problem."""
        self._context = context
        self._phase = phase
        self._page: Page | None = None
        self._target: HttpTarget | None = None
        self._appointment = Appointment(self._ask)
        self._asked_at: float | None = None
        self._failures = 0
        self._written: set[str] = set()
        """Keys of attributes that came with pages, and are believed no longer than these."""
        self._attributes_until = 0.0
        self._completeness = Completeness(context.report)
        self.is_readable = True
        """Whether data came lately, or may still come for the first time."""

    def start(self, delay: float) -> None:
        """Ask for the first time in `delay` seconds."""
        due = self._context.now() + delay
        self.fresh_until = due + self._limit()
        self._wait(due)

    def close(self) -> None:
        """Ask no more; nothing is written from now on."""
        self._context.timetable.cancel(self._appointment)
        if self._page is not None:
            self._page.close()
            self._page = None

    def forget(self) -> None:
        """Take away what pages left on the endpoint: without them nothing is known."""
        for key in self._written:
            self.endpoint.state.attributes.pop(key, None)
        self._written.clear()

    def adopt(self, endpoint: Endpoint, source: PolledSource) -> None:
        """Go on with other metadata, or with a source that was configured anew."""
        self.endpoint = endpoint
        self.source = source
        if self._page is not None and self._read_target() != self._target:
            is_asking = self._asked_at is not None
            self._page.close()
            self._page = None
            if is_asking:
                self._asked_at = None
                self._wait(self._context.now())

    def hasten(self) -> None:
        """The interval has become shorter: what is waiting for its turn gets an earlier one."""
        now = self._context.now()
        if self.source.interval >= self.interval:
            return
        self.interval = self.source.interval
        self.fresh_until = min(self.fresh_until, now + self._limit())
        self._attributes_until = min(self._attributes_until, now + self._limit())
        if self._appointment.number and not self._failures:
            self._wait(now + self._ahead(now))

    def check(self, now: float) -> None:
        """Give up a request that takes too long; tell once when data are too old."""
        if self._asked_at is not None and now - self._asked_at >= self._context.timeout:
            if self._page is not None:
                self._page.abort()
            self._failed(f"no answer within {self._context.timeout:g} s")
        if self._written and now > self._attributes_until:
            self.forget()
        if self.is_readable and now > self.fresh_until:
            self.is_readable = False
            reason = self.last_error or "no answer yet"
            self._context.report.lost(self.endpoint, self.source.name, reason, now)

    def forgive(self, seconds: float) -> None:
        """This process stood still for so long: no server's fault."""
        self.fresh_until += seconds
        self._attributes_until += seconds
        if self._asked_at is not None:
            self._asked_at += seconds

    def _wait(self, due: float) -> None:
        self._context.timetable.set(self._appointment, due)

    def _ask(self) -> None:
        self._asked_at = self._context.now()
        page = self._page
        if page is None:
            page = self._open()
        if page is not None:
            page.fetch()

    def _open(self) -> Page | None:
        self._target = self._read_target()
        if self._target is None:
            self._failed(self.last_error)
            return None
        reader = PageReader(page=self._answered, failure=self._failed)
        self._page = self._context.pages.open(self._target, reader)
        return self._page

    def _read_target(self) -> HttpTarget | None:
        try:
            return self.source.plugin.target(self.endpoint)
        except PLUGIN_FAULTS as error:  # a plugin's fault costs this poll only
            self.last_error = f"{self.source.name} failed: {type(error).__name__}"
            return None

    def _answered(self, payload: bytes) -> None:
        source, context = self.source, self._context
        now = context.now()
        asked_at, self._asked_at = self._asked_at, None
        took = 0.0 if asked_at is None else now - asked_at
        source.durations.observe(took)
        is_good, has_read, self.last_error = self._read(payload, now)
        # A page that takes long to read costs everybody else as much.
        done = context.now()
        took += done - now
        if is_good:
            self._failures = 0
            self.interval = max(source.interval, 2 * took)
        limit = now + self._limit()
        if has_read:
            self._attributes_until = limit
        if not is_good:
            self.last_error = self.last_error or "nothing on the page is of use"
            self._back_off()
            return
        self.fresh_until = limit
        if source.fills_metrics:
            self.endpoint.state.is_stale = False
        if not self.is_readable:
            self.is_readable = True
            context.report.back(self.endpoint, source.name, now)
        self._completeness.judge(self.endpoint, source.name, self.last_error, now)
        self._wait(done + self._pause(now, took))

    def _read(self, payload: bytes, now: float) -> Reading:
        attributes = self.endpoint.state.attributes
        before = tuple(attributes)
        reading = self.source.read(payload, self.endpoint, now)
        if tuple(attributes) != before:
            self._written.update(attributes.keys() - before)
        return reading

    def _pause(self, now: float, took: float) -> float:
        interval = self.source.interval
        if took > interval / 2:  # a server that is slow is busy enough
            return max(took, interval - took)
        ahead = self._ahead(now)
        return ahead if ahead >= interval / 2 else ahead + interval

    def _ahead(self, now: float) -> float:
        """How long until its next turn."""
        source = self.source
        turn = (int(self._phase * source.turns) + 0.5) / source.turns
        return (turn * source.interval - now) % source.interval

    def _failed(self, reason: str) -> None:
        self._asked_at = None
        self.source.poll_errors.inc()
        self.last_error = reason
        self._back_off()

    def _back_off(self) -> None:
        context, interval = self._context, self.source.interval
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        pause = min(interval * 2**self._failures, LONGEST_PAUSE_SECONDS)
        self._wait(context.now() + max(interval, pause * context.rng.uniform(0.75, 1.0)))

    def _limit(self) -> float:
        return stale_after(self.interval, self._context.timeout)
