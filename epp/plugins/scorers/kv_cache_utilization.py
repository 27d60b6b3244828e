"""Prefers endpoints with much free KV cache (scheduling §10.2)."""

from __future__ import annotations

from collections.abc import Sequence

from epp.framework.data_types import KV_CACHE_USAGE_PERCENT
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer


class KvCacheUtilizationScorer(Scorer):
    """Prefers endpoints with much free KV cache."""

    type = "kv-cache-utilization-scorer"
    stability = Stability.BETA
    ignores_parameters = True

    def __init__(self, context: PluginContext) -> None:
        context.consumes(KV_CACHE_USAGE_PERCENT)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """The free share of each KV cache."""
        # `state.metrics`, since the property `metrics` makes it 5.7 µs for 100 endpoints, not 1.9.
        return [1.0 - endpoint.state.metrics.kv_cache_usage for endpoint in endpoints]
