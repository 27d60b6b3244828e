"""Open streams, how long they were open, and how they ended."""

from __future__ import annotations

from epp.observability import metric_catalogue as catalogue
from epp.observability.instruments import FamilySet


class StreamMetrics:
    """A `StreamObserver` that counts."""

    def __init__(self, build: FamilySet) -> None:
        self._inflight = build.gauge(catalogue.STREAMS_INFLIGHT).labels(())
        self._duration = build.histogram(catalogue.STREAM_DURATION).labels(())
        self._total = build.counter(catalogue.STREAMS_TOTAL)

    def stream_opened(self) -> None:
        """A stream began."""
        self._inflight.inc()

    def stream_closed(self, code: str, seconds: float) -> None:
        """It ended with a status named as in Go."""
        self._inflight.dec()
        self._duration.observe(seconds)
        self._total.labels((code,)).inc()
