"""Saturation by what is in flight."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.data import Output
from epp.framework.data_types import IN_FLIGHT_LOAD, InFlightLoad
from epp.framework.endpoint import Endpoint
from epp.plugins.saturation.concurrency import ConcurrencyDetector
from epp.testing import built, endpoint_of, request_of


def carrying(name: str, requests: int, tokens: int) -> Endpoint:
    endpoint = endpoint_of(name)
    output = Output(IN_FLIGHT_LOAD, IN_FLIGHT_LOAD.default_producer)
    output.put_on(endpoint, InFlightLoad(requests, tokens))
    return endpoint


MANY = carrying("e1", 9, 100)
LONG = carrying("e2", 1, 1200)
IDLE = endpoint_of("e3")
ALL = [MANY, LONG, IDLE]
LIMITS: dict[str, Any] = {"max_concurrency": 10, "max_token_concurrency": 1000}


@pytest.mark.parametrize(
    ("mode", "saturation"),
    [("requests", 10 / 30), ("tokens", 1300 / 3000), ("hybrid", (0.9 + 1.2) / 3)],
)
def test_saturation_is_the_share_of_the_capacity_that_is_taken(
    mode: str, saturation: float
) -> None:
    made = built(ConcurrencyDetector, **LIMITS, concurrency_mode=mode)

    assert made.saturation(ALL) == pytest.approx(saturation)
    assert made.saturation([]) == 1.0


@pytest.mark.parametrize(
    ("mode", "headroom", "kept"),
    [
        ("requests", 0.0, ALL),
        ("tokens", 0.0, [MANY, IDLE]),
        ("hybrid", 0.0, [MANY, IDLE]),
        ("tokens", 0.2, [MANY, IDLE]),
        ("tokens", 0.21, ALL),
    ],
)
def test_the_filter_keeps_who_can_take_more(
    mode: str, headroom: float, kept: list[Endpoint]
) -> None:
    made = built(ConcurrencyDetector, **LIMITS, concurrency_mode=mode, headroom=headroom)

    assert made.filter(request_of(), ALL) == kept


def test_the_limit_with_headroom_is_a_whole_number() -> None:
    made = built(ConcurrencyDetector, max_concurrency=9, headroom=0.1)

    assert made.filter(request_of(), [MANY]) == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_concurrency": 0},
        {"max_token_concurrency": 0},
        {"headroom": -1.0},
        {"headroom": 1e308},
        {"concurrency_mode": "both"},
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        built(ConcurrencyDetector, **parameters)
