"""Keeps endpoints near the one that another stage was given to (scheduling §9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Filter
from epp.plugins.topology_distance import LEVELS, TopologyDistance


class TopologyAffinityFilterParameters(Parameters):
    """Parameters of `topology-affinity-filter`."""

    min_affinity: Literal["host", "rack", "zone", "region"] = Field(
        "host", description="Loosest level that an endpoint must share with the peer."
    )
    topology_producer_name: str = Field(
        "", description="Producer of the endpoints' topology; empty: the one there is."
    )


class TopologyAffinityFilter(Filter):
    """Keeps endpoints near the one of the request's other stage, if there are any."""

    type = "topology-affinity-filter"
    stability = Stability.ALPHA

    def __init__(
        self, parameters: TopologyAffinityFilterParameters, context: PluginContext
    ) -> None:
        self._distance = TopologyDistance(context, parameters.topology_producer_name)
        self._loosest = LEVELS.index(parameters.min_affinity)

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Those that share the level or a tighter one; all without a peer, or if none does."""
        levels = self._distance.levels(request, endpoints)
        if levels is None:
            return list(endpoints)
        loosest = self._loosest
        near = [
            endpoint for endpoint, level in zip(endpoints, levels, strict=True) if level <= loosest
        ]
        return near or list(endpoints)
