"""Prefers endpoints by their predicted latencies (scheduling §10.10)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from epp.framework.data_types import (
    KV_CACHE_USAGE_PERCENT,
    LATENCY_PREDICTION,
    PREFIX_MATCH,
    WAITING_QUEUE_SIZE,
    LatencyPrediction,
)
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer
from epp.plugins.scorers.headroom import Headroom, HeadroomWeights, most_hopeful, score_headrooms


class LatencyParameters(Parameters):
    """Parameters of `latency-scorer`."""

    ttft_weight: float = Field(0.8, description="Weight of the time to the first token.")
    tpot_weight: float = Field(0.2, description="Weight of the time per later token.")
    headroom_selection_strategy: str = Field(
        "least",
        description="`most` prefers endpoints far from missing a target, anything else those near.",
    )
    composite_kv_weight: float = Field(
        1.0,
        alias="compositeKVWeight",
        description="Weight of the free KV cache while there are no predictions.",
    )
    composite_queue_weight: float = Field(
        1.0, description="Weight of a short queue while there are no predictions."
    )
    composite_prefix_weight: float = Field(
        1.0, description="Weight of the cached prefix while there are no predictions."
    )
    latency_prediction_info_producer_name: str = Field(
        "", description="Producer of the predictions; empty: the one there is."
    )
    prefix_match_info_producer_name: str = Field(
        "", description="Producer of the prefix matches; empty: the one there is."
    )


class LatencyScorer(Scorer):
    """Prefers endpoints by predicted latency; without predictions by KV cache, queue and prefix."""

    type = "latency-scorer"
    stability = Stability.BETA

    def __init__(self, parameters: LatencyParameters, context: PluginContext) -> None:
        predictor = parameters.latency_prediction_info_producer_name
        self._prediction = context.consumes(
            LATENCY_PREDICTION, producer=predictor or None, required=bool(predictor)
        )
        self._match = context.consumes(
            PREFIX_MATCH, producer=parameters.prefix_match_info_producer_name or None
        )
        context.consumes(WAITING_QUEUE_SIZE, required=False)
        context.consumes(KV_CACHE_USAGE_PERCENT, required=False)
        self._weights = HeadroomWeights.normalized(parameters.ttft_weight, parameters.tpot_weight)
        self._most = parameters.headroom_selection_strategy == "most"
        self._composite_weights = _composite_weights(parameters)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """By headroom for the best group of endpoints, 0 for the others."""
        predictions = self._prediction.values(request, endpoints)
        if all(prediction is None for prediction in predictions):
            return self._composite(request, endpoints)
        headrooms = [_headroom(prediction) for prediction in predictions]
        chosen = [index for index, headroom in enumerate(headrooms) if not headroom.is_negative]
        most = self._most
        if not chosen:
            # Most headroom would be most behind; the least is nearest to its target.
            chosen, most = _idle(predictions) or most_hopeful(headrooms), False
        scores = [0.0] * len(endpoints)
        best = score_headrooms([headrooms[index] for index in chosen], self._weights, most=most)
        for index, score in zip(chosen, best, strict=True):
            scores[index] = score
        return scores

    def _composite(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        kv, queue, prefix = self._composite_weights
        metrics = [endpoint.state.metrics for endpoint in endpoints]
        longest = max(each.waiting_queue_size for each in metrics)
        return [
            _rounded(
                kv * (1.0 - each.kv_cache_usage)
                + queue * ((longest - each.waiting_queue_size) / longest if longest else 1.0)
                + prefix * (0.0 if match is None else match.ratio)
            )
            for each, match in zip(metrics, self._match.values(request, endpoints), strict=True)
        ]


def _headroom(prediction: LatencyPrediction | None) -> Headroom:
    if prediction is None:
        return Headroom()
    return Headroom(prediction.ttft_headroom, prediction.tpot_headroom)


def _idle(predictions: Sequence[LatencyPrediction | None]) -> list[int]:
    return [
        index
        for index, prediction in enumerate(predictions)
        if prediction is not None and prediction.dispatched_request_count == 0
    ]


def _composite_weights(parameters: LatencyParameters) -> tuple[float, float, float]:
    kv = parameters.composite_kv_weight
    queue = parameters.composite_queue_weight
    prefix = parameters.composite_prefix_weight
    total = kv + queue + prefix
    return (kv / total, queue / total, prefix / total) if total > 0 else (1.0, 0.0, 0.0)


def _rounded(score: float) -> float:
    return int(100 * score + 0.5) / 100 if score > 0 else 0.0
