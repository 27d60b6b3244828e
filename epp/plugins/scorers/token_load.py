"""Prefers endpoints that few tokens are on their way to (scheduling §10.7)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from epp.framework.data_types import IN_FLIGHT_LOAD, UNCACHED_REQUEST_TOKENS
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer

_DEFAULT_THRESHOLD = 4_194_304


class TokenLoadParameters(Parameters):
    """Parameters of `token-load-scorer`."""

    queue_threshold_tokens: int = Field(
        _DEFAULT_THRESHOLD,
        description="Tokens from which an endpoint scores 0; 0 or less: the default.",
    )
    in_flight_load_producer_name: str = Field(
        "", description="Producer of the tokens in flight; empty: the one there is."
    )


class TokenLoadScorer(Scorer):
    """Prefers endpoints with few tokens in flight, those that this request adds included."""

    type = "token-load-scorer"
    stability = Stability.BETA

    def __init__(self, parameters: TokenLoadParameters, context: PluginContext) -> None:
        producer = parameters.in_flight_load_producer_name or None
        self._load = context.consumes(IN_FLIGHT_LOAD, producer=producer)
        self._added = context.consumes(UNCACHED_REQUEST_TOKENS, producer=producer)
        threshold = parameters.queue_threshold_tokens
        self._threshold = threshold if threshold > 0 else _DEFAULT_THRESHOLD

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """1 without any tokens, 0 from the threshold on."""
        threshold = self._threshold
        loads = self._load.values(request, endpoints)
        added = self._added.values(request, endpoints)
        tokens = [
            (0 if load is None else load.tokens) + (more or 0)
            for load, more in zip(loads, added, strict=True)
        ]
        return [
            1.0 if count <= 0 else 1 - count / threshold if count < threshold else 0.0
            for count in tokens
        ]
