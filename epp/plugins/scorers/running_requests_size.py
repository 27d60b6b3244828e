"""Prefers endpoints with few running requests (scheduling §10.1)."""

from __future__ import annotations

from collections.abc import Sequence

from epp.framework.data_types import RUNNING_REQUESTS_SIZE
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer
from epp.plugins.scorers.scaling import least_is_best


class RunningRequestsSizeScorer(Scorer):
    """Prefers endpoints with few running requests, relative to the other candidates."""

    type = "running-requests-size-scorer"
    stability = Stability.BETA
    ignores_parameters = True

    def __init__(self, context: PluginContext) -> None:
        context.consumes(RUNNING_REQUESTS_SIZE)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """1 for the fewest running requests, 0 for the most."""
        # `state.metrics`, since the property `metrics` makes it 5.7 µs for 100 endpoints, not 1.9.
        return least_is_best(
            [endpoint.state.metrics.running_requests_size for endpoint in endpoints]
        )
