"""Prefers endpoints by a number that a configuration names (scheduling §10.13)."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf, isnan
from typing import Literal

from pydantic import Field, model_validator

from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer
from epp.plugins.attribute_input import PRODUCER_DESCRIPTION, attribute_input, check_attribute
from epp.plugins.scorers.scaling import scaled_where_known


class FixedRangeParameters(Parameters):
    """A range known beforehand: a share is between 0 and 1."""

    min: float = Field(0.0, description="Lower end; the attribute is clamped to it.")
    max: float = Field(0.0, description="Upper end, above `min`; the attribute is clamped to it.")

    @model_validator(mode="after")
    def _check_order(self) -> FixedRangeParameters:
        if self.min >= self.max:
            raise ValueError(f"min {self.min:g} is not below max {self.max:g}")
        if isinf(self.max - self.min):
            raise ValueError(f"from min {self.min:g} to max {self.max:g} is too far")
        return self


class AdaptiveRangeParameters(Parameters):
    """The range that the candidates of a request span."""


class NormalizationParameters(Parameters):
    """Which range the attribute is scaled from; at most one."""

    fixed_range: FixedRangeParameters | None = Field(None, description="A range known beforehand.")
    adaptive_range: AdaptiveRangeParameters | None = Field(
        None, description="The range that the candidates span, which is the default; `{}`."
    )

    @model_validator(mode="after")
    def _check_single(self) -> NormalizationParameters:
        if self.fixed_range is not None and self.adaptive_range is not None:
            raise ValueError("fixedRange and adaptiveRange are both given: at most one is allowed")
        return self


class ScoringAlgorithmParameters(Parameters):
    """How the attribute becomes a score."""

    type: Literal["linear_lower_is_better", "linear_higher_is_better"] = Field(
        description="Which end of the range scores 1."
    )
    normalization: NormalizationParameters = Field(
        NormalizationParameters(), description="Which range the attribute is scaled from."
    )


class EndpointAttributeScorerParameters(Parameters):
    """Parameters of `endpoint-attribute-scorer`."""

    attribute_key: str = Field(min_length=1, description="Name of the attribute.")
    producer: str | None = Field(None, description=PRODUCER_DESCRIPTION)
    algorithm: ScoringAlgorithmParameters = Field(description="How the attribute becomes a score.")

    @model_validator(mode="after")
    def _check_attribute(self) -> EndpointAttributeScorerParameters:
        check_attribute("attributeKey", self.attribute_key, self.producer)
        return self


class EndpointAttributeScorer(Scorer):
    """Prefers endpoints whose attribute, a number named here, is low or high."""

    type = "endpoint-attribute-scorer"
    stability = Stability.ALPHA

    def __init__(
        self, parameters: EndpointAttributeScorerParameters, context: PluginContext
    ) -> None:
        self._attribute = attribute_input(context, parameters.attribute_key, parameters.producer)
        algorithm = parameters.algorithm
        self._least_first = algorithm.type == "linear_lower_is_better"
        self._range = algorithm.normalization.fixed_range

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """Where in the range each attribute is; 0 for endpoints without it."""
        values = self._attribute.values(request, endpoints)
        if self._range is None:
            return scaled_where_known(values, least_first=self._least_first, unknown=0.0)
        least, span = self._range.min, self._range.max - self._range.min
        shares = [
            None if value is None or isnan(value) else min(max((value - least) / span, 0.0), 1.0)
            for value in values
        ]
        if self._least_first:
            return [0.0 if share is None else 1 - share for share in shares]
        return [0.0 if share is None else share for share in shares]
