"""The rank of a request: the priority of the InferenceObjective its headers name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from epp.request_control.incoming import first_header

if TYPE_CHECKING:
    from epp.framework.headers import Headers

OBJECTIVE_HEADERS = ("x-llm-d-inference-objective", "x-gateway-inference-objective")


class Objectives:
    """Priorities by name of the objective, as whoever reads them last said."""

    def __init__(self, priorities: Mapping[str, int] | None = None) -> None:
        self._priorities: Mapping[str, int] = priorities or {}

    def replace(self, priorities: Mapping[str, int]) -> None:
        """Take over all objectives there are; their priorities by name."""
        self._priorities = priorities

    def priority_of(self, headers: Headers) -> int:
        """Priority of the request with these headers; 0 unless an objective says otherwise."""
        if not self._priorities:
            return 0
        name = first_header(headers, OBJECTIVE_HEADERS)
        return self._priorities.get(name, 0) if name else 0
