"""Prefers endpoints with few running requests (scheduling §10.1)."""

from __future__ import annotations

from collections.abc import Sequence

from epp.framework.data_types import RUNNING_REQUESTS_SIZE
from epp.framework.endpoint import EndpointMetrics
from epp.framework.plugin import PluginContext, Stability
from epp.framework.scheduling import MetricsScorer
from epp.plugins.scorers.scaling import least_is_best


class RunningRequestsSizeScorer(MetricsScorer):
    """Prefers endpoints with few running requests, relative to the other candidates."""

    type = "running-requests-size-scorer"
    stability = Stability.BETA
    ignores_parameters = True

    def __init__(self, context: PluginContext) -> None:
        context.consumes(RUNNING_REQUESTS_SIZE)

    def score_metrics(self, metrics: Sequence[EndpointMetrics]) -> list[float]:
        """1 for the fewest, 0 for the most, in proportion between; 1 if all have as many."""
        return least_is_best([each.running_requests_size for each in metrics])
