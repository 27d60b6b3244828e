"""The pool as a whole: how many endpoints, and how loaded they are on average."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from math import sqrt
from statistics import fmean

from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.metric_specs import GaugeSpec
from epp.observability import metric_catalogue as catalogue
from epp.observability.deprecated_twins import twin_spec
from epp.observability.instruments import (
    MAX_SERIES_PER_FAMILY,
    Computed,
    Family,
    FamilySet,
    Gauge,
)

_Reading = Callable[[EndpointMetrics], float]

_READINGS: tuple[tuple[_Reading, GaugeSpec, GaugeSpec], ...] = (
    (lambda m: m.kv_cache_usage, catalogue.AVERAGE_KV_CACHE, catalogue.STD_DEV_KV_CACHE),
    (lambda m: m.waiting_queue_size, catalogue.AVERAGE_QUEUE_SIZE, catalogue.STD_DEV_QUEUE_SIZE),
    (lambda m: m.running_requests_size, catalogue.AVERAGE_RUNNING, catalogue.STD_DEV_RUNNING),
)


class PoolMetrics:
    """Gauges of one pool. Ready is every endpoint, or where metrics are scraped, a fresh one."""

    def __init__(self, build: FamilySet) -> None:
        self._ready = build.gauge(catalogue.READY_ENDPOINTS)
        self._endpoints = build.gauge(catalogue.ENDPOINTS).labels(())
        self._spreads: list[tuple[_Reading, Family[Gauge], Family[Gauge]]] = [
            (read, build.gauge(average), build.gauge(deviation))
            for read, average, deviation in _READINGS
        ]
        self._name = ""
        self._size = 0
        self._scraped: Callable[[], Sequence[Endpoint]] | None = None
        spec = catalogue.PER_ENDPOINT_QUEUE_SIZE
        self.queue_sizes = Computed(spec, self._queue_sizes)
        """Of each endpoint whose metrics are scraped, as of now."""
        self.queue_sizes_twin = Computed(_former(spec), self._queue_sizes)
        """The same under its former name."""

    def changed(self, name: str, endpoints: int) -> None:
        """The pool `name` now has so many endpoints; another pool's series go away."""
        if name != self._name:
            self._name = name
            self._ready.clear()
            for _, average, deviation in self._spreads:
                average.clear()
                deviation.clear()
        self._size = endpoints
        self._endpoints.set(endpoints)
        if self._scraped is None or not endpoints:
            self._ready.labels((name,)).set(endpoints)

    def follow(self, scraped: Callable[[], Sequence[Endpoint]] | None) -> None:
        """Be told where to find the endpoints whose metrics are scraped; None: of none are."""
        self._scraped = scraped
        if scraped is None and self._name:
            self._ready.labels((self._name,)).set(self._size)

    def refresh(self, oldest: float) -> None:
        """Look at the scraped endpoints; those with metrics from after `oldest` are fresh.

        Averages keep their values while no endpoint is fresh (datalayer §5).
        """
        if self._scraped is None or not self._name:
            return
        name = (self._name,)
        fresh = [
            state.metrics
            for state in [endpoint.state for endpoint in self._scraped()]
            if not state.is_stale and (state.metrics.updated_at or 0.0) > oldest
        ]
        self._ready.labels(name).set(len(fresh))
        if not fresh:
            return
        for read, average, deviation in self._spreads:
            values = [float(read(metrics)) for metrics in fresh]
            mean = fmean(values)
            average.labels(name).set(round(mean, 2))
            deviation.labels(name).set(round(_sample_deviation(values, mean), 2))

    def _queue_sizes(self) -> Mapping[tuple[str, ...], float]:
        if self._scraped is None:
            return {}
        return {
            (self._name, endpoint.name): endpoint.state.metrics.waiting_queue_size
            for endpoint in islice(self._scraped(), MAX_SERIES_PER_FAMILY)
        }


def _sample_deviation(values: Sequence[float], mean: float) -> float:
    # statistics.stdev is exact and takes ten times as long.
    if len(values) < 2:
        return 0.0
    return sqrt(sum([(value - mean) ** 2 for value in values]) / (len(values) - 1))


def _former(spec: GaugeSpec) -> GaugeSpec:
    assert spec.twin is not None
    former = twin_spec(spec, spec.twin)
    assert isinstance(former, GaugeSpec)
    return former
