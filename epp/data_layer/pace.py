"""How often endpoints are asked: fast with traffic, slowly without, never too much in total."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor
from typing import TYPE_CHECKING

import structlog

from epp.data_layer.settings import SHORTEST_INTERVAL_SECONDS, DataLayerSettings

if TYPE_CHECKING:
    from epp.data_layer.polled_source import PolledSource

log = structlog.get_logger(__name__)

_MOST_PER_TURN = 12


def base_tick(refresh: float, own_intervals: Sequence[float]) -> float:
    """The tick that all intervals are multiples of (datalayer §2)."""
    return max(SHORTEST_INTERVAL_SECONDS, min((refresh, *own_intervals)))


def whole_ticks(interval: float, tick: float) -> int:
    """How many ticks come closest to `interval`; halves go up, and one is the least."""
    return max(1, floor(interval / tick + 0.5))


def turns_of(endpoints: int) -> int:
    """In how many turns so many are asked, which are an interval's even parts.

    To wake up for one alone costs more than to ask it; asked all at once they would hold up
    requests.
    """
    return max(1, ceil(endpoints / _MOST_PER_TURN))


class Pace:
    """Sets the interval of every source; `wake` is called when a request ends idleness."""

    def __init__(
        self, settings: DataLayerSettings, now: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._now = now
        self._wake = wake
        self._sources: Sequence[PolledSource] = ()
        self._tick = base_tick(settings.refresh_seconds, ())
        self._requests = 0
        self._seen = 0
        self._busy_at = now()
        self.is_idle = False

    def note_request(self) -> None:
        """A request is about to be scheduled. Called for each: an addition, unless idle."""
        self._requests += 1
        if self.is_idle:
            self.is_idle = False
            self._busy_at = self._now()
            self._wake()

    def set_sources(self, sources: Sequence[PolledSource]) -> None:
        """Pace these from now on; `update` follows."""
        self._sources = sources
        own = [each.own_interval for each in sources if each.own_interval is not None]
        self._tick = base_tick(self._settings.refresh_seconds, own)
        for source in sources:
            interval = source.own_interval
            if interval is not None:
                used = whole_ticks(interval, self._tick) * self._tick
                if abs(used - interval) > 1e-9:
                    log.info(
                        "interval of a source rounded to whole ticks",
                        source=source.name,
                        interval=interval,
                        used=round(used, 6),
                    )

    def watch_traffic(self) -> None:
        """Become idle when there was no request for a while; called from time to time."""
        if self._requests != self._seen:
            self._seen = self._requests
            self._busy_at = self._now()
        elif self._now() - self._busy_at >= self._settings.idle_after_seconds:
            self.is_idle = True

    def update(self, endpoints: int) -> None:
        """Set the intervals for so many endpoints."""
        nominal = [self._nominal(source) for source in self._sources]
        rate = endpoints * sum(1 / interval for interval in nominal)
        stretch = max(1.0, rate / self._settings.max_scrapes_per_second)
        for source, interval in zip(self._sources, nominal, strict=True):
            source.set_interval(interval * stretch, turns_of(endpoints))

    def _nominal(self, source: PolledSource) -> float:
        if source.own_interval is not None:
            return whole_ticks(source.own_interval, self._tick) * self._tick
        if self.is_idle:
            return max(self._tick, self._settings.idle_refresh_seconds)
        return self._tick
