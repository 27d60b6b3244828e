"""The rank of a request: the priority of the InferenceObjective its headers name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from epp.request_control.incoming import first_header

if TYPE_CHECKING:
    from epp.framework.headers import Headers

OBJECTIVE_HEADERS = ("x-llm-d-inference-objective", "x-gateway-inference-objective")


def priority_of(headers: Headers, priorities: Mapping[str, int]) -> int:
    """0 unless one of `priorities`, by name of the objective, says otherwise."""
    if not priorities:
        return 0
    name = first_header(headers, OBJECTIVE_HEADERS)
    return priorities.get(name, 0) if name else 0
