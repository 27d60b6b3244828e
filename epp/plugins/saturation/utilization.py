"""Saturation by what model servers report: queues and KV caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from epp.framework.flow_control import SaturationDetector
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.scheduling import Filter
from epp.plugins.saturation.pressure import pressure_against
from epp.support.durations import parse_duration

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


def _positive_duration(text: str) -> str:
    if parse_duration(text) <= 0:
        raise ValueError(f"{text!r} is too short; allowed: more than 0")
    return text


class UtilizationDetectorParameters(Parameters):
    """Where an endpoint's limits are."""

    queue_depth_threshold: int = Field(
        5, gt=0, description="Waiting requests at which an endpoint is saturated."
    )
    kv_cache_util_threshold: float = Field(
        0.8, gt=0, le=1, description="KV-cache usage at which an endpoint is saturated."
    )
    metrics_staleness_threshold: Annotated[str, AfterValidator(_positive_duration)] = Field(
        "200ms",
        description="Age up to which metrics are believed, if that is more than scraping allows.",
    )
    headroom: float = Field(
        0.0, ge=0, description="Share by which the filter lets the thresholds be exceeded."
    )


class UtilizationDetector(Filter, SaturationDetector):
    """Tells saturation by waiting requests and KV-cache usage; drops endpoints at their limits.

    An endpoint counts as saturated when it has never been heard of, or when it is stale and its
    metrics are older than `metricsStalenessThreshold`. The threshold alone makes nothing stale:
    an idle pool is scraped less often than the reference's 200 ms, and would look saturated.
    """

    type = "utilization-detector"
    stability = Stability.BETA

    def __init__(self, parameters: UtilizationDetectorParameters, context: PluginContext) -> None:
        queue, kv = parameters.queue_depth_threshold, parameters.kv_cache_util_threshold
        self._pressure = pressure_against(queue, kv)
        self._queue_limit = queue * (1 + parameters.headroom)
        self._kv_limit = kv * (1 + parameters.headroom)
        self._stale_after = parse_duration(parameters.metrics_staleness_threshold)
        self._now = context.now

    def saturation(self, endpoints: Sequence[Endpoint]) -> float:
        """Mean pressure on the endpoints; 1 if there are none."""
        if not endpoints:
            return 1.0
        now = self._now()
        pressures = [
            1.0 if self._is_stale(endpoint, now) else self._pressure(endpoint.metrics)
            for endpoint in endpoints
        ]
        return sum(pressures) / len(pressures)

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints that are heard of and below their limits; all if there are none."""
        now = self._now()
        kept = [
            endpoint
            for endpoint in endpoints
            if endpoint.metrics.waiting_queue_size < self._queue_limit
            and endpoint.metrics.kv_cache_usage < self._kv_limit
            and not self._is_stale(endpoint, now)
        ]
        return kept or list(endpoints)

    def _is_stale(self, endpoint: Endpoint, now: float) -> bool:
        updated_at = endpoint.metrics.updated_at
        if updated_at is None:
            return True
        return endpoint.is_stale and now - updated_at > self._stale_after
