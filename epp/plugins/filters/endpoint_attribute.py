"""Keeps endpoints by a number that a configuration names (scheduling §9)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pydantic import Field, model_validator

from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Filter
from epp.plugins.attribute_input import PRODUCER_DESCRIPTION, attribute_input, check_attribute

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "Equal": operator.eq,
    "NotEqual": operator.ne,
}


class ThresholdParameters(Parameters):
    """What the attribute of an endpoint that is kept compares with."""

    operator: Literal[
        "LessThan",
        "LessThanOrEqual",
        "GreaterThan",
        "GreaterThanOrEqual",
        "Equal",
        "NotEqual",
    ] = Field(description="How the attribute of an endpoint that is kept compares.")
    value: float = Field(0.0, description="What the attribute is compared with.")


class FilterAlgorithmParameters(Parameters):
    """How an endpoint is judged by its attribute."""

    type: Literal["threshold"] = Field(description="How an endpoint is judged.")
    threshold: ThresholdParameters = Field(description="Comparison that holds for who is kept.")


class EndpointAttributeFilterParameters(Parameters):
    """Parameters of `endpoint-attribute-filter`."""

    attribute: str = Field(min_length=1, description="Name of the attribute.")
    producer: str | None = Field(None, description=PRODUCER_DESCRIPTION)
    on_missing: Literal["Pass", "Fail"] = Field(
        "Pass", description="Whether endpoints without the attribute are kept."
    )
    fallback_on_empty: bool = Field(
        False, description="Whether all endpoints are kept when none would be."
    )
    algorithm: FilterAlgorithmParameters = Field(description="How an endpoint is judged.")

    @model_validator(mode="after")
    def _check_attribute(self) -> EndpointAttributeFilterParameters:
        check_attribute("attribute", self.attribute, self.producer)
        return self


class EndpointAttributeFilter(Filter):
    """Keeps endpoints whose attribute, a number named here, compares as wanted."""

    type = "endpoint-attribute-filter"
    stability = Stability.ALPHA

    def __init__(
        self, parameters: EndpointAttributeFilterParameters, context: PluginContext
    ) -> None:
        self._attribute = attribute_input(context, parameters.attribute, parameters.producer)
        threshold = parameters.algorithm.threshold
        self._compares = _COMPARISONS[threshold.operator]
        self._value = threshold.value
        self._keeps_unknown = parameters.on_missing == "Pass"
        self._falls_back = parameters.fallback_on_empty

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Those for which the comparison holds."""
        compares, value, keeps_unknown = self._compares, self._value, self._keeps_unknown
        kept = [
            endpoint
            for endpoint, found in zip(
                endpoints, self._attribute.values(request, endpoints), strict=True
            )
            if (keeps_unknown if found is None else compares(found, value))
        ]
        return list(endpoints) if not kept and self._falls_back else kept
