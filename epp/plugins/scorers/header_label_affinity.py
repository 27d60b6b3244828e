"""Prefers endpoints whose label has the value of a request header (scheduling §10.12)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer
from epp.plugins.header_names import HeaderName


class HeaderLabelAffinityParameters(Parameters):
    """Parameters of `header-label-affinity-scorer`."""

    header_name: HeaderName = Field(min_length=1, description="Request header, in any case.")
    label_key: str = Field(min_length=1, description="Label of endpoints that is compared with it.")


class HeaderLabelAffinityScorer(Scorer):
    """Prefers endpoints whose label has the value of a request header."""

    type = "header-label-affinity-scorer"
    stability = Stability.ALPHA

    def __init__(self, parameters: HeaderLabelAffinityParameters) -> None:
        self._header = parameters.header_name.lower()
        self._label = parameters.label_key

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """1 where the two are equal; nowhere if the header is missing or empty."""
        wanted, label = request.headers.get(self._header), self._label
        if not wanted:
            return [0.0] * len(endpoints)
        return [1.0 if endpoint.labels.get(label) == wanted else 0.0 for endpoint in endpoints]
