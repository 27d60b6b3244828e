"""Saturation by what was sent from here and is not done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from epp.framework.data_types import IN_FLIGHT_LOAD, InFlightLoad
from epp.framework.flow_control import SaturationDetector
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.scheduling import Filter

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class ConcurrencyDetectorParameters(Parameters):
    """How much may be in flight at one endpoint."""

    max_concurrency: int = Field(
        100, gt=0, description="Requests in flight at which an endpoint is saturated."
    )
    max_token_concurrency: int = Field(
        1_000_000, gt=0, description="Tokens in flight at which an endpoint is saturated."
    )
    concurrency_mode: Literal["requests", "tokens", "hybrid"] = Field(
        "requests", description="What is counted; hybrid: both, and the worse counts."
    )
    headroom: float = Field(
        0.0,
        ge=0,
        le=1_000_000,
        description="Share by which the filter lets the maximum be exceeded.",
    )
    in_flight_load_producer_name: str = Field(
        "", description="Producer of what is in flight; empty: the one there is."
    )


_NOTHING = InFlightLoad()


class ConcurrencyDetector(Filter, SaturationDetector):
    """Tells saturation by requests or tokens in flight; drops endpoints that have enough."""

    type = "concurrency-detector"
    stability = Stability.BETA

    def __init__(self, parameters: ConcurrencyDetectorParameters, context: PluginContext) -> None:
        self._mode = parameters.concurrency_mode
        self._max_requests = parameters.max_concurrency
        self._max_tokens = parameters.max_token_concurrency
        share = 1 + parameters.headroom
        self._request_limit = int(self._max_requests * share)
        self._token_limit = int(self._max_tokens * share)
        producer = parameters.in_flight_load_producer_name or None
        self._in_flight = context.consumes(IN_FLIGHT_LOAD, producer=producer)

    def saturation(self, endpoints: Sequence[Endpoint]) -> float:
        """Share of the pool's capacity that is taken; 1 if there are no endpoints."""
        if not endpoints:
            return 1.0
        loads = [self._in_flight.on(endpoint) or _NOTHING for endpoint in endpoints]
        if self._mode == "requests":
            taken = sum(load.requests for load in loads) / self._max_requests
        elif self._mode == "tokens":
            taken = sum(load.tokens for load in loads) / self._max_tokens
        else:
            taken = sum(
                max(load.requests / self._max_requests, load.tokens / self._max_tokens)
                for load in loads
            )
        return taken / len(loads)

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints that may get more; none is possible."""
        loads = [load or _NOTHING for load in self._in_flight.values(request, endpoints)]
        return [
            endpoint
            for endpoint, load in zip(endpoints, loads, strict=True)
            if (self._mode == "tokens" or load.requests < self._request_limit)
            and (self._mode == "requests" or load.tokens < self._token_limit)
        ]
