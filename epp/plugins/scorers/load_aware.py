"""Prefers endpoints with few waiting requests, on a fixed scale (scheduling §10.5)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from epp.framework.data_types import WAITING_QUEUE_SIZE
from epp.framework.endpoint import EndpointMetrics
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.scheduling import MetricsScorer

_DEFAULT_THRESHOLD = 128


class LoadAwareParameters(Parameters):
    """Parameters of `load-aware-scorer`."""

    threshold: int = Field(
        _DEFAULT_THRESHOLD,
        description="Waiting requests from which an endpoint scores 0; 0 or less: the default.",
    )


class LoadAwareScorer(MetricsScorer):
    """Prefers endpoints with few waiting requests, whatever the others have: 0.5 for none."""

    type = "load-aware-scorer"
    stability = Stability.BETA

    def __init__(self, parameters: LoadAwareParameters, context: PluginContext) -> None:
        context.consumes(WAITING_QUEUE_SIZE)
        threshold = parameters.threshold if parameters.threshold > 0 else _DEFAULT_THRESHOLD
        self._threshold = threshold

    def score_metrics(self, metrics: Sequence[EndpointMetrics]) -> list[float]:
        """0.5 for an empty queue, 0 from the threshold on."""
        threshold = self._threshold
        waiting = [each.waiting_queue_size for each in metrics]
        return [0.5 * (1 - size / threshold) if size < threshold else 0.0 for size in waiting]
