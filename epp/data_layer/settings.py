"""How the data layer is told to behave."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST_INTERVAL_SECONDS = 0.05
SWEEP_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
FIRST_SCRAPES_PER_SECOND = 2000
"""A whole pool that appears at once is connected to at this rate; a few endpoints at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLayerSettings:
    """Settings of scraping and of the pool's gauges."""

    refresh_seconds: float = SHORTEST_INTERVAL_SECONDS
    """Pause between scrapes of an endpoint with traffic (`--refresh-metrics-interval`)."""
    idle_refresh_seconds: float = 1.0
    """The same when there has been none for a while; the first request ends that at once."""
    idle_after_seconds: float = 10.0
    """How long without a request is "a while"."""
    timeout_seconds: float = 1.0
    """From asking to the whole page."""
    max_scrapes_per_second: float = 6000.0
    """Of the process: intervals are stretched so that a large pool is not asked more often."""
    max_connections: int = 10_000
    """Of the process, to endpoints; see `connections_within`."""
    gauge_refresh_seconds: float = 5.0
    """Pause between updates of the pool's gauges (`--refresh-prometheus-metrics-interval`)."""
    fresh_seconds: float = 2.0
    """Age up to which metrics count in these gauges (`--metrics-staleness-threshold`)."""
