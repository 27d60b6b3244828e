"""Prefers endpoints that hold a request's images, videos and sounds encoded (scheduling §10.11)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from epp.framework.data_types import MULTI_MODAL_MATCH, MultiModalMatch
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer


class MmEmbeddingsCacheParameters(Parameters):
    """Parameters of `mm-embeddings-cache-scorer`."""

    producer_name: str = Field(
        "", description="Producer of the encoder-cache matches; empty: the one there is."
    )


class MmEmbeddingsCacheScorer(Scorer):
    """Prefers endpoints whose encoder cache holds the request's images, videos and sounds."""

    type = "mm-embeddings-cache-scorer"
    stability = Stability.BETA

    def __init__(self, parameters: MmEmbeddingsCacheParameters, context: PluginContext) -> None:
        self._match = context.consumes(MULTI_MODAL_MATCH, producer=parameters.producer_name or None)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """Share of the items that is cached, by size."""
        return [
            0.0 if match is None else _cached_share(match)
            for match in self._match.values(request, endpoints)
        ]


def _cached_share(match: MultiModalMatch) -> float:
    requested = sum(item.size for item in match.requested)
    return sum(item.size for item in match.matched) / requested if requested > 0 else 0.0
