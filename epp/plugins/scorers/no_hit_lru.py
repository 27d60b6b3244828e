"""Spreads requests that nobody has a prefix of (scheduling §10.8)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from epp.framework.data_layer import EndpointListener
from epp.framework.data_types import PREFIX_MATCH
from epp.framework.endpoint import Endpoint, EndpointId
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.request_control import PreRequest
from epp.framework.scheduling import Scorer
from epp.framework.scheduling_results import SchedulingResult
from epp.plugins.producers.removed_endpoints import RemovedEndpoints

DEFAULT_SIZE = 1024
NEUTRAL = 0.5


class NoHitLruParameters(Parameters):
    """Parameters of `no-hit-lru-scorer`."""

    lru_size: int = Field(
        DEFAULT_SIZE,
        description="Endpoints whose last cold request is remembered; 0 or less: 1024.",
    )
    prefix_match_info_producer_name: str = Field(
        "", description="Producer of the matches; empty: the one there is."
    )
    prefix_plugin_type: str = Field("", description="Ignored.")
    prefix_plugin_name: str = Field("", description="Ignored.")


class NoHitLruScorer(Scorer, PreRequest, EndpointListener):
    """Sends requests without a cached prefix to the endpoint that got such a one longest ago."""

    type = "no-hit-lru-scorer"
    stability = Stability.BETA

    def __init__(self, parameters: NoHitLruParameters, context: PluginContext) -> None:
        self._matches = context.consumes(
            PREFIX_MATCH, producer=parameters.prefix_match_info_producer_name or None
        )
        self._size = parameters.lru_size if parameters.lru_size > 0 else DEFAULT_SIZE
        self._key = f"cold/{context.name}"
        self._used: dict[EndpointId, str] = {}
        """Endpoints and their names by their last cold request, oldest first."""
        self._removed = RemovedEndpoints()

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """Endpoints never used come first, in their order; 0.5 for all if there is any match."""
        matches = self._matches.values(request, endpoints)
        is_cold = not any(match.match_blocks for match in matches if match is not None)
        request.attributes[self._key] = is_cold
        if not is_cold:
            return [NEUTRAL] * len(endpoints)
        if len(endpoints) == 1:
            return [1.0]
        return self._by_last_use(endpoints)

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Whoever gets a cold request is the last in the order."""
        if not request.attributes.pop(self._key, False):
            return
        for endpoint in result.learning_endpoints:
            if endpoint.id in self._removed:
                continue
            self._used.pop(endpoint.id, None)
            self._used[endpoint.id] = f"{endpoint.namespace}/{endpoint.name}"
        while len(self._used) > self._size:
            del self._used[next(iter(self._used))]

    def endpoint_added(self, endpoint: Endpoint) -> None:
        """It has had no request yet."""
        self._removed.discard(endpoint.id)

    def endpoint_removed(self, endpoint: Endpoint) -> None:
        """It takes no place in the order any more."""
        self._removed.add(endpoint.id)
        self._used.pop(endpoint.id, None)

    def dump_state(self) -> object:
        """Endpoints by their last cold request, oldest first."""
        return {"used": list(self._used.values())}

    def _by_last_use(self, endpoints: Sequence[Endpoint]) -> list[float]:
        # Places count over all that were used, candidates or not, as in the reference.
        place_of = {endpoint: place for place, endpoint in enumerate(self._used)}
        places = [place_of.get(endpoint.id) for endpoint in endpoints]
        never_used = places.count(None)
        last = len(endpoints) - 1
        scores, never_used_before = [], 0
        for place in places:
            if place is None:
                rank = never_used_before
                never_used_before += 1
            else:
                rank = never_used + place
            scores.append(max(0.0, 1.0 - rank / last))
        return scores
