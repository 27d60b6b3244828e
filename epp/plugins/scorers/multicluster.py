"""Scorers of endpoints that each stand for the pool of a cluster (scheduling §7)."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from epp.framework.data_types import MULTICLUSTER_KV_CACHE_UTILIZATION, MULTICLUSTER_QUEUE_SIZE
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer
from epp.plugins.scorers.prefix_cache import PrefixCacheScorer
from epp.plugins.scorers.scaling import scaled_where_known


class MulticlusterQueueScorer(Scorer):
    """Prefers clusters whose pool has few waiting requests, relative to the other clusters."""

    type = "multicluster-queue-scorer"
    stability = Stability.ALPHA

    def __init__(self, context: PluginContext) -> None:
        self._queue_size = context.consumes(MULTICLUSTER_QUEUE_SIZE)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """1 for the shortest queue, 0 for the longest; no score where it is not known."""
        sizes = self._queue_size.values(request, endpoints)
        return scaled_where_known(sizes, least_first=True, unknown=nan)


class MulticlusterKvCacheUtilizationScorer(Scorer):
    """Prefers clusters whose pool has much free KV cache."""

    type = "multicluster-kv-cache-utilization-scorer"
    stability = Stability.ALPHA

    def __init__(self, context: PluginContext) -> None:
        self._utilization = context.consumes(MULTICLUSTER_KV_CACHE_UTILIZATION)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """The free share of each pool's KV cache; no score where it is not known."""
        return [
            nan if used is None else 1.0 - used
            for used in self._utilization.values(request, endpoints)
        ]


class MulticlusterPrefixCacheScorer(PrefixCacheScorer):
    """Prefers clusters whose pool is believed to hold much of the prompt in its caches."""

    type = "multicluster-prefix-cache-scorer"
    stability = Stability.ALPHA
