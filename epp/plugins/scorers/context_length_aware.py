"""Prefers endpoints that are meant for prompts as long as the request's (scheduling §10.9)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
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
_KNOWN_RANGES = 1024
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
        # Labels are few and are read for every request.
        self._range_of = lru_cache(_KNOWN_RANGES)(_parse)

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Those whose range holds the prompt's length, and those without a label."""
        if not self._filters:
            return list(endpoints)
        length, label = self._length(request), self._label
        return [
            endpoint for endpoint in endpoints if self._serves(endpoint.labels.get(label), length)
        ]

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """More for narrow ranges with room above the prompt, little for those that miss it."""
        length, label = self._length(request), self._label
        return [self._suitability(endpoint.labels.get(label), length) for endpoint in endpoints]

    def _length(self, request: InferenceRequest) -> int:
        prompt = self._prompt.of_request(request)
        return 0 if prompt is None else prompt.count

    def _serves(self, value: str | None, length: int) -> bool:
        if value is None:
            return True
        bounds = self._range_of(value)
        return bounds is not None and bounds.least <= length <= bounds.most

    def _suitability(self, value: str | None, length: int) -> float:
        if value is None:
            return _UNLABELLED
        bounds = self._range_of(value)
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
