"""Endpoints below limits of their load."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.data import Output
from epp.framework.data_types import IN_FLIGHT_LOAD, InFlightLoad
from epp.framework.endpoint import Endpoint
from epp.plugins.filters.utilization import UtilizationFilter
from epp.testing import FakeContext, built, endpoint_of, request_of

IDLE = endpoint_of("e1")
BUSY = endpoint_of("e2", waiting=4, running=20, kv=0.9)
FULL = endpoint_of("e3", waiting=9, running=40, kv=1.0)
ALL = [IDLE, BUSY, FULL]


def limit(metric: str, most: float) -> dict[str, Any]:
    return {"metric": metric, "max_value": most}


def carrying(endpoint: Endpoint, requests: int, producer: str) -> Endpoint:
    Output(IN_FLIGHT_LOAD, producer).put_on(endpoint, InFlightLoad(requests))
    return endpoint


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ([limit("waiting-queue", 4)], [IDLE, BUSY]),
        ([limit("running-requests", 19.5)], [IDLE]),
        ([limit("kv-cache-utilization", 1)], ALL),
        ([limit("kv-cache-utilization", 0.95), limit("waiting-queue", 3)], [IDLE]),
    ],
)
def test_an_endpoint_is_kept_within_all_limits(
    conditions: list[dict[str, Any]], kept: list[Endpoint]
) -> None:
    made = built(UtilizationFilter, conditions=conditions)

    assert made.filter(request_of(), ALL) == kept


@pytest.mark.parametrize(("falls_back", "kept"), [(False, []), (True, [BUSY, FULL])])
def test_nobody_within_the_limits_is_nobody_unless_a_fallback_is_wanted(
    falls_back: bool, kept: list[Endpoint]
) -> None:
    made = built(
        UtilizationFilter,
        conditions=[limit("waiting-queue", 0)],
        fallback_on_empty=falls_back,
    )

    assert made.filter(request_of(), [BUSY, FULL]) == kept


def test_requests_in_flight_are_those_of_the_named_producer_and_unknown_ones_are_none() -> None:
    three = carrying(endpoint_of("e1"), 3, "mine")
    four = carrying(endpoint_of("e2"), 4, "mine")
    unknown = carrying(endpoint_of("e3"), 9, "other")
    made = built(
        UtilizationFilter,
        conditions=[limit("active-requests", 3)],
        in_flight_load_producer_name="mine",
    )

    assert made.filter(request_of(), [three, four, unknown]) == [three, unknown]


def test_in_flight_load_is_asked_for_only_when_a_condition_needs_it() -> None:
    without, with_it = FakeContext(), FakeContext()

    built(UtilizationFilter, without, conditions=[limit("waiting-queue", 1)])
    built(UtilizationFilter, with_it, conditions=[limit("active-requests", 1)])

    assert [len(context.inputs) for context in (without, with_it)] == [0, 1]


@pytest.mark.parametrize(
    "conditions", [[], [limit("kv-cache-utilization", 1.5)], [limit("disk", 1)]]
)
def test_limits_that_mean_nothing_are_refused(conditions: list[dict[str, Any]]) -> None:
    with pytest.raises(ValidationError):
        built(UtilizationFilter, conditions=conditions)
