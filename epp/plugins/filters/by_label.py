"""Endpoints by the value of one label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from epp.framework.plugin import Parameters, Stability
from epp.framework.scheduling import Filter

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class ByLabelParameters(Parameters):
    """Which values of which label are wanted."""

    label: str = Field(min_length=1, description="Label to look at.")
    valid_values: list[str] = Field([], description="Values that are kept.")
    allows_no_label: bool = Field(
        False, description="Whether endpoints without the label are kept too."
    )

    @model_validator(mode="after")
    def _check_that_anything_is_kept(self) -> ByLabelParameters:
        if not self.valid_values and not self.allows_no_label:
            raise ValueError("validValues needs a value unless allowsNoLabel is true")
        return self


class ByLabelFilter(Filter):
    """Keeps endpoints whose label has one of the listed values."""

    type = "by-label"
    stability = Stability.DEPRECATED
    replaced_by = "label-selector-filter"

    def __init__(self, parameters: ByLabelParameters) -> None:
        self._label = parameters.label
        without = {None} if parameters.allows_no_label else set()
        self._kept: frozenset[str | None] = frozenset(parameters.valid_values) | without

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints whose label is as wanted."""
        label, kept = self._label, self._kept
        return [endpoint for endpoint in endpoints if endpoint.labels.get(label) in kept]
