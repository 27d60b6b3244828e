"""Prefers endpoints that are meant for prompts as long as the request's (scheduling §10.9)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from epp.framework.data_types import TOKENIZED_PROMPT
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Filter, Scorer

_UNLABELLED = 0.5
_OUT_OF_RANGE = 0.3
"""Those in range score above it, those out of range below."""
_RANGE = re.compile(r"\s*\+?([0-9]{1,18})\s*-\s*\+?([0-9]{1,18})\s*")


class ContextLengthAwareParameters(Parameters):
    """Parameters of `context-length-aware`."""

    label: str = Field(
        "llm-d.ai/context-length-range",
        min_length=1,
        description="Label of endpoints with the prompt lengths they are for, as `min-max` tokens.",
    )
    enable_filtering: bool = Field(
        False, description="Whether endpoints for other prompt lengths are no candidates."
    )


class _Range(NamedTuple):
    least: int
    most: int


class ContextLengthAware(Filter, Scorer):
    """Prefers endpoints labelled for prompts as long as this one, or drops the others."""

    type = "context-length-aware"
    stability = Stability.BETA

    def __init__(self, parameters: ContextLengthAwareParameters, context: PluginContext) -> None:
        self._prompt = context.consumes(TOKENIZED_PROMPT)
        self._label = parameters.label
        self._filters = parameters.enable_filtering

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Those whose range holds the prompt's length, and those without a label."""
        if not self._filters:
            return list(endpoints)
        values = self._values(endpoints)
        length = self._length(request)
        # Endpoints are many, their ranges few.
        serving = {value for value in set(values) if _serves(value, length)}
        return [
            endpoint for endpoint, value in zip(endpoints, values, strict=True) if value in serving
        ]

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """More for narrow ranges with room above the prompt, little for those that miss it."""
        values = self._values(endpoints)
        length = self._length(request)
        scores = {value: _suitability(value, length) for value in set(values)}
        return [scores[value] for value in values]

    def _values(self, endpoints: Sequence[Endpoint]) -> list[str | None]:
        label = self._label
        return [endpoint.labels.get(label) for endpoint in endpoints]

    def _length(self, request: InferenceRequest) -> int:
        prompt = self._prompt.of_request(request)
        return 0 if prompt is None else prompt.count


def _serves(value: str | None, length: int) -> bool:
    if value is None:
        return True
    bounds = _parse(value)
    return bounds is not None and bounds.least <= length <= bounds.most


def _suitability(value: str | None, length: int) -> float:
    if value is None:
        return _UNLABELLED
    bounds = _parse(value)
    return 0.0 if bounds is None else _range_score(bounds, length)


def _parse(value: str) -> _Range | None:
    match = _RANGE.fullmatch(value)
    if match is None:
        return None
    least, most = int(match[1]), int(match[2])
    return _Range(least, most) if least <= most else None


def _range_score(bounds: _Range, length: int) -> float:
    least, most = bounds
    if not least <= length <= most:
        distance = length - most if length > most else least - length
        return _OUT_OF_RANGE / (1 + distance / 1000)
    width = most - least
    if width == 0:
        return 1.0
    raw = 0.7 / (1 + width / 10000) + 0.3 * (most - length) / width
    return _OUT_OF_RANGE + (1 - _OUT_OF_RANGE) * raw
