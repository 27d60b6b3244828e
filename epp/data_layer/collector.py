"""Keeps one poll for every endpoint and source, and judges all of them by the clock."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING

from epp.data_layer.poll import Poll, PollContext
from epp.data_layer.settings import FIRST_SCRAPES_PER_SECOND, SWEEP_SECONDS
from epp.data_layer.staleness import mark_stale, mark_unscraped

if TYPE_CHECKING:
    from epp.data_layer.pace import Pace
    from epp.data_layer.polled_source import PolledSource
    from epp.framework.endpoint import Endpoint, EndpointId

# Multiples of it, without their whole part, are spread evenly however many there are.
_GOLDEN_RATIO = (sqrt(5) - 1) / 2


class _Watched:
    __slots__ = ("endpoint", "phase", "polls")

    def __init__(self, endpoint: Endpoint, phase: float) -> None:
        self.endpoint = endpoint
        self.phase = phase
        self.polls: list[Poll] = []


class Collector:
    """Polls every endpoint it is told of. Runs in the event loop; `sweep` it all the time."""

    def __init__(self, context: PollContext, pace: Pace) -> None:
        self._context = context
        self._pace = pace
        self._sources: Sequence[PolledSource] = ()
        self._watched: dict[EndpointId, _Watched] = {}
        self._phases = 0
        self._swept_at: float | None = None
        self.is_scraping = False
        """Whether any source fills the metrics of endpoints."""
        self.stale_endpoints = 0

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def longest_interval(self) -> float:
        """The longest pause between updates of metrics while all is well."""
        return max((each.interval for each in self._sources if each.fills_metrics), default=0.0)

    def add(self, endpoints: Sequence[Endpoint]) -> None:
        """Ask these at once, in turns if they are many."""
        added = []
        for endpoint in endpoints:
            self._phases += 1
            watched = _Watched(endpoint, self._phases * _GOLDEN_RATIO % 1.0)
            self._watched[endpoint.id] = watched
            if self.is_scraping:
                mark_stale(endpoint.state)
            added.append(watched)
        self._pace.update(len(self._watched))
        for source in self._sources:
            self._start(added, source)

    def replace(self, endpoint: Endpoint) -> None:
        """Go on with the new object of an endpoint."""
        watched = self._watched[endpoint.id]
        if watched.endpoint.state is not endpoint.state:  # gone and back within one change
            self.remove(endpoint)
            self.add((endpoint,))
            return
        watched.endpoint = endpoint
        for poll in watched.polls:
            poll.adopt(endpoint, poll.source)

    def remove(self, endpoint: Endpoint) -> None:
        """Write nothing to it any more."""
        for poll in self._watched.pop(endpoint.id).polls:
            poll.close()
        self._pace.update(len(self._watched))

    def set_sources(self, sources: Sequence[PolledSource]) -> None:
        """Poll these; a source of the same name and type goes on where the old one was."""
        self._sources = sources
        was_scraping = self.is_scraping
        self.is_scraping = any(source.fills_metrics for source in sources)
        self._pace.set_sources(sources)
        self._pace.update(len(self._watched))
        for source in sources:
            new = [each for each in self._watched.values() if not _goes_on(each, source)]
            self._start(new, source)
        for watched in self._watched.values():
            self._drop(watched)
            if self.is_scraping and not was_scraping:
                mark_stale(watched.endpoint.state)
            elif was_scraping and not self.is_scraping:
                mark_unscraped(watched.endpoint.state)
        self.hasten()

    def hasten(self) -> None:
        """Traffic began, or intervals became shorter for another reason."""
        self._pace.update(len(self._watched))
        for watched in self._watched.values():
            for poll in watched.polls:
                poll.hasten()

    def sweep(self) -> None:
        """End what takes too long, and find out what has become stale."""
        now = self._context.now()
        self._forgive(now)
        was_idle = self._pace.is_idle
        self._pace.watch_traffic()
        if self._pace.is_idle is not was_idle:
            self._pace.update(len(self._watched))
        stale = 0
        for watched in self._watched.values():
            is_fresh = False
            for poll in watched.polls:
                poll.check(now)
                if poll.source.fills_metrics and poll.is_readable:
                    is_fresh = True
            state = watched.endpoint.state
            if self.is_scraping and not is_fresh and not state.is_stale:
                mark_stale(state)
            stale += state.is_stale
        self.stale_endpoints = stale
        self._context.report.sum_up(now)

    def close(self) -> None:
        """Poll nothing any more."""
        for watched in self._watched.values():
            for poll in watched.polls:
                poll.close()
        self._watched.clear()

    def unreadable(self) -> list[Poll]:
        """Polls that have brought nothing of use for too long."""
        return [
            poll
            for watched in self._watched.values()
            for poll in watched.polls
            if not poll.is_readable
        ]

    def _start(self, endpoints: Sequence[_Watched], source: PolledSource) -> None:
        for index, watched in enumerate(endpoints):
            poll = Poll(watched.endpoint, source, self._context, watched.phase)
            watched.polls.append(poll)
            poll.start(index / FIRST_SCRAPES_PER_SECOND)

    def _drop(self, watched: _Watched) -> None:
        for poll in watched.polls:
            if poll.source not in self._sources:
                poll.close()
                poll.forget()
        watched.polls = [poll for poll in watched.polls if poll.source in self._sources]

    def _forgive(self, now: float) -> None:
        swept_at, self._swept_at = self._swept_at, now
        late = 0.0 if swept_at is None else now - swept_at - SWEEP_SECONDS
        if late > SWEEP_SECONDS:
            for watched in self._watched.values():
                for poll in watched.polls:
                    poll.forgive(late)


def _goes_on(watched: _Watched, source: PolledSource) -> bool:
    """Whether a poll of the source's predecessor was handed over to it."""
    for poll in watched.polls:
        old = poll.source
        if old.name == source.name and old.plugin.type == source.plugin.type:
            poll.adopt(watched.endpoint, source)
            return True
    return False
