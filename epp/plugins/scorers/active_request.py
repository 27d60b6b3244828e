"""Prefers endpoints that this process has sent few requests to (scheduling §10.6)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from epp.framework.data_types import IN_FLIGHT_LOAD
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer


class ActiveRequestParameters(Parameters):
    """Parameters of `active-request-scorer`."""

    idle_threshold: int = Field(
        0, description="Requests in flight up to which an endpoint is idle; negative: 0."
    )
    max_busy_score: float = Field(
        1.0,
        description="Score that an endpoint which is not idle stays below; outside of 0 to 1: 1.",
    )
    in_flight_load_producer_name: str = Field(
        "", description="Producer of the requests in flight; empty: the one there is."
    )
    request_timeout: str = Field(
        "", description="Ignored: requests are counted until they end, however long they take."
    )


class ActiveRequestScorer(Scorer):
    """Prefers endpoints with few requests in flight from here, idle ones above all."""

    type = "active-request-scorer"
    stability = Stability.BETA

    def __init__(self, parameters: ActiveRequestParameters, context: PluginContext) -> None:
        self._load = context.consumes(
            IN_FLIGHT_LOAD, producer=parameters.in_flight_load_producer_name or None
        )
        self._idle = max(parameters.idle_threshold, 0)
        busiest = parameters.max_busy_score
        self._busy = busiest if 0 <= busiest <= 1 else 1.0

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """1 where idle; the busiest gets 0, the others `maxBusyScore` in proportion."""
        counts = [
            0 if load is None else load.requests for load in self._load.values(request, endpoints)
        ]
        most, idle, busy = max(counts), self._idle, self._busy
        return [1.0 if count <= idle else (most - count) / most * busy for count in counts]
