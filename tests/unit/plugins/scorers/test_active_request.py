"""`active-request-scorer`."""

from __future__ import annotations

from typing import Any

import pytest

from epp.framework.data import Output
from epp.framework.data_types import IN_FLIGHT_LOAD, InFlightLoad
from epp.framework.endpoint import Endpoint
from epp.plugins.scorers.active_request import ActiveRequestScorer
from epp.testing import FakeContext, built, endpoint_of, request_of

load_of = Output(IN_FLIGHT_LOAD, IN_FLIGHT_LOAD.default_producer)


def busy(*in_flight: int | None) -> list[Endpoint]:
    endpoints = [endpoint_of(f"e{index}") for index in range(len(in_flight))]
    for endpoint, requests in zip(endpoints, in_flight, strict=True):
        if requests is not None:
            load_of.put_on(endpoint, InFlightLoad(requests))
    return endpoints


@pytest.mark.parametrize(
    ("parameters", "in_flight", "expected"),
    [
        pytest.param({}, [3, 0, 6, 1], [0.5, 1, 0, 0.833333], id="G14"),
        pytest.param(
            {"idle_threshold": 2, "max_busy_score": 0.5}, [1, 2, 3, 8], [1, 1, 0.3125, 0], id="G15"
        ),
        pytest.param({}, [4, 4], [0, 0], id="G16"),
        pytest.param({}, [None, 0], [1, 1], id="nothing in flight"),
        pytest.param({}, [None, 2], [1, 0], id="not known is none"),
        pytest.param({"idle_threshold": -1}, [0, 2], [1, 0], id="negative threshold"),
        pytest.param({"max_busy_score": 1.5}, [1, 4], [0.75, 0], id="score above 1"),
        pytest.param({"max_busy_score": -0.1}, [1, 4], [0.75, 0], id="score below 0"),
        pytest.param({"max_busy_score": 0.0}, [0, 1, 4], [1, 0, 0], id="score of 0"),
        pytest.param({"request_timeout": "10s"}, [1, 4], [0.75, 0], id="timeout is ignored"),
    ],
)
def test_scores_are_the_references(
    parameters: dict[str, Any], in_flight: list[int | None], expected: list[float]
) -> None:
    scores = built(ActiveRequestScorer, **parameters).score(request_of(), busy(*in_flight))

    assert scores == pytest.approx(expected, abs=5e-7)


def test_a_burst_between_two_scrapes_is_shared_evenly() -> None:
    scorer = built(ActiveRequestScorer)
    loads = [InFlightLoad() for _ in range(4)]
    endpoints = [endpoint_of(f"e{index}") for index in range(4)]
    for endpoint, load in zip(endpoints, loads, strict=True):
        load_of.put_on(endpoint, load)

    for _ in range(40):
        scores = scorer.score(request_of(), endpoints)
        loads[scores.index(max(scores))].requests += 1

    assert [load.requests for load in loads] == [10, 10, 10, 10]


def test_the_producer_can_be_named() -> None:
    [endpoint, other] = busy(5, 1)
    Output(IN_FLIGHT_LOAD, "mine").put_on(endpoint, InFlightLoad(0))
    Output(IN_FLIGHT_LOAD, "mine").put_on(other, InFlightLoad(2))
    context = FakeContext()

    scorer = built(ActiveRequestScorer, context, in_flight_load_producer_name="mine")

    assert scorer.score(request_of(), [endpoint, other]) == [1, 0]
    assert [made.producer for made in context.inputs] == ["mine"]
