"""Admission by predicted latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.data_types import LATENCY_PREDICTION
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request_control import Admitter
from epp.plugins.admitters.denials import no_room

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest

_OBJECTIVES = (
    ("x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"),
    ("x-llm-d-slo-tpot-ms", "x-slo-tpot-ms"),
)
_COLD_BELOW = 0.02
"""KV-cache usage of an endpoint whose predictions can't be relied on yet."""


class LatencySloAdmitterParameters(Parameters):
    """Whose predictions are read."""

    latency_prediction_info_producer_name: str = Field(
        "", description="Producer of the predictions; empty: the one there is."
    )


class LatencySloAdmitter(Admitter):
    """Sheds requests of negative priority that no endpoint is predicted to serve in time."""

    type = "latency-slo-admitter"
    stability = Stability.BETA

    def __init__(self, parameters: LatencySloAdmitterParameters, context: PluginContext) -> None:
        producer = parameters.latency_prediction_info_producer_name or None
        self._predictions = context.consumes(LATENCY_PREDICTION, producer=producer, required=False)

    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Deny if there are predictions and none of them, no idle and no cold endpoint helps."""
        if request.priority >= 0 or not _has_objective(request):
            return
        known = [p for p in self._predictions.values(request, endpoints) if p is not None]
        if not known or any(p.ttft_valid and p.tpot_valid for p in known):
            return
        if any(_is_idle_or_cold(endpoint) for endpoint in endpoints):
            return
        raise no_room("no valid endpoint available to serve the request")


def _is_idle_or_cold(endpoint: Endpoint) -> bool:
    metrics = endpoint.metrics
    return metrics.running_requests_size == 0 or metrics.kv_cache_usage < _COLD_BELOW


def _has_objective(request: InferenceRequest) -> bool:
    headers = request.headers
    # As in the reference, the current name wins over its alias even when it is empty.
    return any(
        _milliseconds(headers.get(name if name in headers else alias)) > 0
        for name, alias in _OBJECTIVES
    )


def _milliseconds(text: str | None) -> float:
    """The value of a header; what can't be read counts as no objective."""
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
