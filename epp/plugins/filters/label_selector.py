"""Endpoints by the labels of their pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.plugin import Stability
from epp.framework.scheduling import Filter
from epp.plugins.label_selectors import LabelSelector

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class LabelSelectorFilter(Filter):
    """Keeps endpoints whose labels match a Kubernetes label selector."""

    type = "label-selector-filter"
    stability = Stability.BETA

    def __init__(self, parameters: LabelSelector) -> None:
        self._matches = parameters.matcher()

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints that match."""
        matches = self._matches
        return [endpoint for endpoint in endpoints if matches(endpoint.labels)]


class ByLabelSelectorFilter(LabelSelectorFilter):
    """Keeps endpoints whose labels match a selector, under the filter's former name."""

    type = "by-label-selector"
    stability = Stability.DEPRECATED
    replaced_by = "label-selector-filter"
