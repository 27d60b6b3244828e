"""Prefers endpoints that hold the beginning of the prompt (scheduling §10.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from epp.framework.data_types import PREFIX_MATCH, PrefixMatch
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer, SparseScores
from epp.plugins.shared_values import computed_once

MANY = 4
"""One of so many endpoints holds some of the prompt: then each of them is looked at."""


class PrefixCacheParameters(Parameters):
    """Parameters of `prefix-cache-scorer`."""

    # It had them itself until there were producers, and documents in use still say so.
    elsewhere = dict.fromkeys(
        (
            "autoTune",
            "blockSize",
            "blockSizeTokens",
            "maxPrefixBlocksToMatch",
            "maxPrefixTokensToMatch",
            "lruCapacityPerServer",
        ),
        "approx-prefix-cache-producer",
    )

    prefix_match_info_producer_name: str = Field(
        "", description="Producer of the matches; empty: the one there is."
    )
    match_length_weight: float = Field(
        0.0, ge=0, le=1, description="Share of the score that the length of the match makes up."
    )
    match_length_scale_tokens: int = Field(
        8192, description="Length in tokens that earns all of matchLengthWeight."
    )

    @model_validator(mode="after")
    def _has_scale(self) -> Self:
        if self.match_length_weight > 0 and self.match_length_scale_tokens <= 0:
            raise ValueError("matchLengthScaleTokens must be > 0 when matchLengthWeight is > 0")
        return self


class PrefixCacheScorer(Scorer):
    """Prefers endpoints that are believed to hold much of the prompt in their cache."""

    type = "prefix-cache-scorer"
    stability = Stability.BETA

    def __init__(self, parameters: PrefixCacheParameters, context: PluginContext) -> None:
        self._matches = context.consumes(
            PREFIX_MATCH, producer=parameters.prefix_match_info_producer_name or None
        )
        self._weight = parameters.match_length_weight
        self._scale = parameters.match_length_scale_tokens

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """The matched share of the prompt; with `matchLengthWeight` its length counts as well."""
        matches = self._matches.values(request, endpoints)
        holding = [place for place, match in enumerate(matches) if match and match.match_blocks]
        if len(holding) * MANY > len(matches):
            return computed_once(self._score_of, matches)
        return SparseScores(
            len(matches), {place: self._score_of(matches[place]) for place in holding}
        )

    def _score_of(self, match: PrefixMatch | None) -> float:
        if match is None or match.total_blocks == 0:
            return 0.0
        if not self._weight:
            return match.ratio
        length = min(1.0, match.match_blocks * match.block_size_tokens / self._scale)
        return self._weight * length**2 + (1 - self._weight) * match.ratio
