"""Prefers endpoints with few waiting requests (scheduling §10.1)."""

from __future__ import annotations

from collections.abc import Sequence

from epp.framework.data_types import WAITING_QUEUE_SIZE
from epp.framework.endpoint import EndpointMetrics
from epp.framework.plugin import PluginContext, Stability
from epp.framework.scheduling import MetricsScorer
from epp.plugins.scorers.scaling import least_is_best


class QueueScorer(MetricsScorer):
    """Prefers endpoints with few waiting requests, relative to the other candidates."""

    type = "queue-scorer"
    stability = Stability.BETA
    ignores_parameters = True

    def __init__(self, context: PluginContext) -> None:
        context.consumes(WAITING_QUEUE_SIZE)

    def score_metrics(self, metrics: Sequence[EndpointMetrics]) -> list[float]:
        """1 for the shortest queue, 0 for the longest, in proportion between; equals are all 1."""
        return least_is_best([each.waiting_queue_size for each in metrics])
