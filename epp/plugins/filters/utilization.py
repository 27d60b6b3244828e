"""Endpoints below limits of their load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from epp.framework.data import Input
from epp.framework.data_types import IN_FLIGHT_LOAD, InFlightLoad
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.scheduling import Filter

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest

ACTIVE_REQUESTS = "active-requests"
KV_CACHE_UTILIZATION = "kv-cache-utilization"


class UtilizationCondition(Parameters):
    """A metric and the most it may be."""

    metric: Literal[
        "active-requests", "running-requests", "waiting-queue", "kv-cache-utilization"
    ] = Field(description="What is looked at; active-requests are those in flight from here.")
    max_value: float = Field(ge=0, description="Endpoints above it are dropped.")

    @model_validator(mode="after")
    def _check_share(self) -> UtilizationCondition:
        if self.metric == KV_CACHE_UTILIZATION and self.max_value > 1:
            raise ValueError(f"maxValue is {self.max_value}; allowed for {self.metric}: 0 to 1")
        return self


class UtilizationFilterParameters(Parameters):
    """Conditions that all must hold."""

    conditions: list[UtilizationCondition] = Field(
        min_length=1, description="Limits; an endpoint is kept if it is within all of them."
    )
    fallback_on_empty: bool = Field(
        False, description="Whether all endpoints are kept if none is within the limits."
    )
    in_flight_load_producer_name: str = Field(
        "", description="Producer of the requests in flight; empty: the one there is."
    )


class UtilizationFilter(Filter):
    """Keeps endpoints whose load is within limits."""

    type = "utilization-filter"
    stability = Stability.ALPHA

    def __init__(self, parameters: UtilizationFilterParameters, context: PluginContext) -> None:
        self._fallback_on_empty = parameters.fallback_on_empty
        self._in_flight: Input[InFlightLoad] | None = None
        if any(condition.metric == ACTIVE_REQUESTS for condition in parameters.conditions):
            producer = parameters.in_flight_load_producer_name or None
            self._in_flight = context.consumes(IN_FLIGHT_LOAD, producer=producer)
        self._conditions = tuple(
            (self._reader(condition.metric), condition.max_value)
            for condition in parameters.conditions
        )

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints within all limits."""
        kept = list(endpoints)
        for read, most in self._conditions:
            kept = [endpoint for endpoint in kept if read(request, endpoint) <= most]
        return kept if kept or not self._fallback_on_empty else list(endpoints)

    def _reader(self, metric: str) -> Callable[[InferenceRequest, Endpoint], float]:
        return {
            ACTIVE_REQUESTS: self._active_requests,
            "running-requests": lambda _, endpoint: endpoint.metrics.running_requests_size,
            "waiting-queue": lambda _, endpoint: endpoint.metrics.waiting_queue_size,
            KV_CACHE_UTILIZATION: lambda _, endpoint: endpoint.metrics.kv_cache_usage,
        }[metric]

    def _active_requests(self, request: InferenceRequest, endpoint: Endpoint) -> float:
        load = self._in_flight.of(request, endpoint) if self._in_flight is not None else None
        return load.requests if load is not None else 0
