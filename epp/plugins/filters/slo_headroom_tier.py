"""Endpoints that are predicted to keep the latency objectives, before those that are not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.data_types import LATENCY_PREDICTION
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.scheduling import Filter

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class SloHeadroomTierParameters(Parameters):
    """How often the worse tier is tried."""

    epsilon_explore_neg: float = Field(
        0.01, ge=0, le=1, description="Probability of choosing the tier without headroom."
    )
    latency_prediction_info_producer_name: str = Field(
        "", description="Producer of the predictions; empty: the one there is."
    )


class SloHeadroomTierFilter(Filter):
    """Keeps endpoints with headroom to both latency objectives, rarely those without."""

    type = "slo-headroom-tier-filter"
    stability = Stability.BETA

    def __init__(self, parameters: SloHeadroomTierParameters, context: PluginContext) -> None:
        producer = parameters.latency_prediction_info_producer_name or None
        self._predictions = context.consumes(LATENCY_PREDICTION, producer=producer, required=False)
        self._explore = parameters.epsilon_explore_neg
        self._rng: random.Random = context.rng

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """One of the two tiers; all endpoints while nothing is predicted."""
        predictions = self._predictions.values(request, endpoints)
        if len(endpoints) < 2 or all(prediction is None for prediction in predictions):
            return list(endpoints)
        positive: list[Endpoint] = []
        negative: list[Endpoint] = []
        for endpoint, prediction in zip(endpoints, predictions, strict=True):
            has_headroom = (
                prediction is not None
                and prediction.ttft_headroom >= 0
                and prediction.tpot_headroom >= 0
            )
            (positive if has_headroom else negative).append(endpoint)
        if positive and negative:
            return negative if self._rng.random() < self._explore else positive
        return positive or negative
