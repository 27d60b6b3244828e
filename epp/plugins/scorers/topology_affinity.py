"""Prefers endpoints near the one that another stage was given to (scheduling §10.14)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer
from epp.plugins.topology_distance import TopologyDistance

_SCORES = (1.0, 0.20, 0.05, 0.02, 0.0)
"""By level of `topology_distance.LEVELS`; last: nothing is shared."""


class TopologyAffinityScorerParameters(Parameters):
    """Parameters of `topology-affinity-scorer`."""

    topology_producer_name: str = Field(
        "", description="Producer of the endpoints' topology; empty: the one there is."
    )


class TopologyAffinityScorer(Scorer):
    """Prefers endpoints near the one of the request's other stage: its host, rack, zone, region."""

    type = "topology-affinity-scorer"
    stability = Stability.ALPHA

    def __init__(
        self, parameters: TopologyAffinityScorerParameters, context: PluginContext
    ) -> None:
        self._distance = TopologyDistance(context, parameters.topology_producer_name)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """The more, the tighter the level shared with the peer; 0 for all without a peer."""
        levels = self._distance.levels(request, endpoints)
        if levels is None:
            return [0.0] * len(endpoints)
        return [_SCORES[level] for level in levels]
