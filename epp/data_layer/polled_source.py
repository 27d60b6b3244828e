"""A polling source with its extractors and its pace: what all endpoints have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import structlog

from epp.framework.data_layer import ExtractionError, Extractor, PollingSource
from epp.support.fault_log import FaultLog
from epp.support.plugin_faults import PLUGIN_FAULTS

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.observability.instruments import Counter
    from epp.observability.scrape_metrics import ScrapeMetrics

log = structlog.get_logger(__name__)

_LONGEST_COMPLAINT = 200


class Reading(NamedTuple):
    """What extractors made of one page."""

    is_good: bool
    """Whether the endpoint's metrics were read, or anything where they are not to be found."""
    has_read: bool
    """Whether any extractor found what it looks for."""
    complaint: str
    """What was missing or could not be read, if anything."""


class PolledSource:
    """Reads pages of one source; faults of its extractors end here."""

    def __init__(
        self, source: PollingSource, extractors: Sequence[Extractor], metrics: ScrapeMetrics
    ) -> None:
        self.plugin = source
        self.name = source.name
        self.own_interval = source.interval_seconds
        self.fills_metrics = any(each.fills_metrics for each in extractors)
        self.interval = 0.0
        """The pause in force between polls of one endpoint."""
        self.turns = 1
        """In how many turns all endpoints are asked within the interval."""
        self.poll_errors = metrics.poll_errors(source.type)
        self.durations = metrics.duration(source.type)
        self._interval_gauge = metrics.interval(source.type)
        faults = FaultLog("plugin failed", log.warning)
        self._extractors = [
            _Attached(each, metrics.extract_errors(source.type, each.type), faults)
            for each in extractors
        ]

    def set_interval(self, seconds: float, turns: int) -> None:
        """Poll each endpoint every `seconds` from now on, and all of them in so many turns."""
        self.interval = seconds
        self.turns = turns
        self._interval_gauge.set(seconds)

    def read(self, payload: bytes, endpoint: Endpoint, now: float) -> Reading:
        """Let every extractor have the page."""
        is_good = has_read = False
        complaint = ""
        for extractor in self._extractors:
            if extractor.extract(payload, endpoint, now):
                has_read = True
                is_good = is_good or extractor.fills_metrics or not self.fills_metrics
            complaint = complaint or extractor.complaint
        return Reading(is_good, has_read, complaint)


class _Attached:
    def __init__(self, extractor: Extractor, errors: Counter, faults: FaultLog) -> None:
        self.fills_metrics = extractor.fills_metrics
        self.complaint = ""
        self._extractor = extractor
        self._errors = errors
        self._faults = faults

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        try:
            has_read = self._extractor.extract(payload, endpoint, now)
        except ExtractionError as error:
            self._errors.inc(error.count)
            self.complaint = str(error)[:_LONGEST_COMPLAINT]
            return error.applied
        except PLUGIN_FAULTS as error:  # a plugin's fault costs this call only
            self._errors.inc()
            name = self._extractor.name
            self.complaint = f"{name} failed: {type(error).__name__}"
            self._faults.tell(
                name, error, extension_point="Extractor", plugin=name, type=self._extractor.type
            )
            return False
        self.complaint = ""
        return has_read
