"""Endpoints that hold most of the prompt, unless they are much busier than the others."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from epp.framework.data import Input
from epp.framework.data_types import (
    IN_FLIGHT_LOAD,
    LATENCY_PREDICTION,
    PREFIX_MATCH,
    InFlightLoad,
    LatencyPrediction,
)
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.scheduling import Filter

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class PrefixCacheAffinityParameters(Parameters):
    """When an endpoint counts as sticky, and when that no longer matters."""

    affinity_threshold: float = Field(
        0.80, le=1, description="Matched share that makes an endpoint sticky; 0 or less: off."
    )
    exploration_probability: float = Field(
        0.0, ge=0, le=1, description="Probability of keeping all endpoints."
    )
    max_ttft_penalty_ms: float = Field(
        18000.0,
        ge=0,
        alias="maxTTFTPenaltyMs",
        description="Time to first token that a cache hit may cost; 0: any.",
    )
    ttft_source: Literal["prefillThroughput", "latencyPredictor"] = Field(
        "prefillThroughput", description="Where the time to first token comes from."
    )
    peak_prefill_throughput: float = Field(
        15928.0, gt=0, description="Tokens of prompts an endpoint computes in a second."
    )
    prefix_match_info_producer_name: str = Field(
        "", description="Producer of the prefix matches; empty: the one there is."
    )
    latency_prediction_info_producer_name: str = Field(
        "", description="Producer of the predictions; empty: the one there is."
    )
    in_flight_load_producer_name: str = Field(
        "", description="Producer of the tokens in flight; empty: the one there is."
    )


class PrefixCacheAffinityFilter(Filter):
    """Keeps endpoints that hold most of the prompt, while that does not cost too much time."""

    type = "prefix-cache-affinity-filter"
    stability = Stability.BETA

    def __init__(self, parameters: PrefixCacheAffinityParameters, context: PluginContext) -> None:
        self._parameters = parameters
        self._rng: random.Random = context.rng
        self._matches = context.consumes(
            PREFIX_MATCH, producer=parameters.prefix_match_info_producer_name or None
        )
        self._ttft = _source_of_ttft(parameters, context)

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The sticky endpoints, or all of them."""
        threshold = self._parameters.affinity_threshold
        if len(endpoints) < 2 or threshold <= 0 or self._explores():
            return list(endpoints)
        matches = self._matches.values(request, endpoints)
        is_sticky = [match is not None and match.ratio >= threshold for match in matches]
        sticky = [endpoint for endpoint, stays in zip(endpoints, is_sticky, strict=True) if stays]
        if not sticky or len(sticky) == len(endpoints):
            return list(endpoints)
        if self._costs_too_much(request, endpoints, is_sticky):
            return list(endpoints)
        return sticky

    def _explores(self) -> bool:
        probability = self._parameters.exploration_probability
        return probability > 0 and self._rng.random() < probability

    def _costs_too_much(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint], is_sticky: Sequence[bool]
    ) -> bool:
        penalty = self._parameters.max_ttft_penalty_ms
        if penalty <= 0:
            return False
        best = {True: math.inf, False: math.inf}
        for ttft, stays in zip(self._ttft.values(request, endpoints), is_sticky, strict=True):
            best[stays] = min(best[stays], ttft)
        return best[True] - best[False] > penalty


class _ThroughputTtft:
    """Time to work off what is in flight; nothing known of it counts as none."""

    def __init__(self, loads: Input[InFlightLoad], tokens_per_second: float) -> None:
        self._loads = loads
        self._ms_per_token = 1000 / tokens_per_second

    def values(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        loads = self._loads.values(request, endpoints)
        return [load.tokens * self._ms_per_token if load is not None else 0.0 for load in loads]


class _PredictedTtft:
    """What is predicted; an endpoint without a prediction is the last to be preferred."""

    def __init__(self, predictions: Input[LatencyPrediction]) -> None:
        self._predictions = predictions

    def values(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        predictions = self._predictions.values(request, endpoints)
        return [p.ttft if p is not None else _NO_PREDICTION for p in predictions]


# Not infinite: the difference of two endpoints without a prediction has to be a number.
_NO_PREDICTION = 1e300


def _source_of_ttft(
    parameters: PrefixCacheAffinityParameters, context: PluginContext
) -> _ThroughputTtft | _PredictedTtft:
    if parameters.ttft_source == "latencyPredictor":
        producer = parameters.latency_prediction_info_producer_name or None
        return _PredictedTtft(
            context.consumes(LATENCY_PREDICTION, producer=producer, required=False)
        )
    producer = parameters.in_flight_load_producer_name or None
    loads = context.consumes(IN_FLIGHT_LOAD, producer=producer)
    return _ThroughputTtft(loads, parameters.peak_prefill_throughput)
