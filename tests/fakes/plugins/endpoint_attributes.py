"""Endpoints that have an attribute, or lack it."""

from __future__ import annotations

from epp.framework.data import Output
from epp.framework.data_types import endpoint_attribute
from epp.framework.endpoint import Endpoint
from epp.testing import endpoint_of


def endpoints_with(
    *values: float | None, attribute: str = "temperature", producer: str = "core-metrics-extractor"
) -> list[Endpoint]:
    """An endpoint for each value; None: it lacks the attribute."""
    endpoints = [endpoint_of(f"e{index}") for index in range(len(values))]
    for endpoint, value in zip(endpoints, values, strict=True):
        if value is not None:
            Output(endpoint_attribute(attribute), producer).put_on(endpoint, value)
    return endpoints
