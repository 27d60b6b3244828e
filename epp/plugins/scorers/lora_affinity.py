"""Prefers endpoints that serve a LoRA adapter already, or have room for it (scheduling §10.3)."""

from __future__ import annotations

from collections.abc import Sequence

from epp.framework.data_types import ACTIVE_MODELS, WAITING_MODELS
from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.plugin import PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer

_ACTIVE = 1.0
_HAS_ROOM = 0.8
_WAITING = 0.6
_FULL = 0.0


class LoraAffinityScorer(Scorer):
    """Prefers endpoints that have the LoRA adapter of the request loaded, or room for it."""

    type = "lora-affinity-scorer"
    stability = Stability.BETA
    ignores_parameters = True

    def __init__(self, context: PluginContext) -> None:
        context.consumes(ACTIVE_MODELS)
        context.consumes(WAITING_MODELS)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """1 where it runs, 0.8 where there is room, 0.6 where it is waited for, else 0."""
        model = request.target_model
        return [_affinity(model, endpoint.state.metrics) for endpoint in endpoints]


def _affinity(model: str, metrics: EndpointMetrics) -> float:
    active = metrics.active_models
    if model in active:
        return _ACTIVE
    waiting = metrics.waiting_models
    # An adapter that runs and is waited for takes one place, not two (decision 34).
    if len(active | waiting if waiting else active) < metrics.max_active_models:
        return _HAS_ROOM
    return _WAITING if model in waiting else _FULL
