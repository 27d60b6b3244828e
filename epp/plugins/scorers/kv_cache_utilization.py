"""Prefers endpoints with much free KV cache (scheduling §10.2)."""

from __future__ import annotations

from collections.abc import Sequence

from epp.framework.data_types import KV_CACHE_USAGE_PERCENT
from epp.framework.endpoint import EndpointMetrics
from epp.framework.plugin import PluginContext, Stability
from epp.framework.scheduling import MetricsScorer


class KvCacheUtilizationScorer(MetricsScorer):
    """Prefers endpoints with much free KV cache."""

    type = "kv-cache-utilization-scorer"
    stability = Stability.BETA
    ignores_parameters = True

    def __init__(self, context: PluginContext) -> None:
        context.consumes(KV_CACHE_USAGE_PERCENT)

    def score_metrics(self, metrics: Sequence[EndpointMetrics]) -> list[float]:
        """The free share of each KV cache."""
        return [1.0 - each.kv_cache_usage for each in metrics]
