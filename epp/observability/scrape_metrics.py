"""How scraping of model servers goes."""

from __future__ import annotations

from epp.observability import metric_catalogue as catalogue
from epp.observability.instruments import Counter, FamilySet, Gauge, Histogram


class ScrapeMetrics:
    """Series of the data layer; callers keep what they are given."""

    def __init__(self, build: FamilySet) -> None:
        self._poll_errors = build.counter(catalogue.POLL_ERRORS)
        self._extract_errors = build.counter(catalogue.EXTRACT_ERRORS)
        self._durations = build.histogram(catalogue.SCRAPE_DURATION)
        self._intervals = build.gauge(catalogue.SCRAPE_INTERVAL)
        self.stale_endpoints = build.gauge(catalogue.STALE_ENDPOINTS).labels(())

    def poll_errors(self, source_type: str) -> Counter:
        """Scrapes of a source that brought no page."""
        return self._poll_errors.labels((source_type,))

    def extract_errors(self, source_type: str, extractor_type: str) -> Counter:
        """What an extractor missed on pages of a source."""
        return self._extract_errors.labels((source_type, extractor_type))

    def duration(self, source_type: str) -> Histogram:
        """Times from question to answer."""
        return self._durations.labels((source_type,))

    def interval(self, source_type: str) -> Gauge:
        """The pause in force."""
        return self._intervals.labels((source_type,))
