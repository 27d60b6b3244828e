"""`token-load-scorer`."""

from __future__ import annotations

from typing import Any

import pytest

from epp.framework.data import Output
from epp.framework.data_types import IN_FLIGHT_LOAD, UNCACHED_REQUEST_TOKENS, InFlightLoad
from epp.plugins.scorers.token_load import TokenLoadScorer
from epp.testing import FakeContext, built, endpoint_of, put, request_of


@pytest.mark.parametrize(
    ("parameters", "tokens", "expected"),
    [
        pytest.param(
            {},
            [(1048576, 0), (0, 0), (2097152, 1048576), (5000000, 0)],
            [0.75, 1, 0.25, 0],
            id="G17",
        ),
        pytest.param(
            {"queue_threshold_tokens": 1000}, [(250, 150), (None, None)], [0.6, 1], id="G18"
        ),
        pytest.param({"queue_threshold_tokens": 0}, [(2097152, None)], [0.5], id="zero"),
        pytest.param({"queue_threshold_tokens": -9}, [(None, 2097152)], [0.5], id="negative"),
        pytest.param({}, [(-5, 0)], [1], id="never above 1"),
    ],
)
def test_scores_are_the_references(
    parameters: dict[str, Any],
    tokens: list[tuple[int | None, int | None]],
    expected: list[float],
) -> None:
    request = request_of()
    endpoints = [endpoint_of(f"e{index}") for index in range(len(tokens))]
    load_of = Output(IN_FLIGHT_LOAD, IN_FLIGHT_LOAD.default_producer)
    added = {}
    for endpoint, (in_flight, more) in zip(endpoints, tokens, strict=True):
        if in_flight is not None:
            load_of.put_on(endpoint, InFlightLoad(1, in_flight))
        if more is not None:
            added[endpoint] = more
    put(UNCACHED_REQUEST_TOKENS, request, added)

    scores = built(TokenLoadScorer, **parameters).score(request, endpoints)

    assert scores == pytest.approx(expected, abs=5e-7)


def test_the_named_producer_is_asked_for_both_counts() -> None:
    context = FakeContext()

    built(TokenLoadScorer, context, in_flight_load_producer_name="mine")

    assert [(made.data_type, made.producer) for made in context.inputs] == [
        (IN_FLIGHT_LOAD, "mine"),
        (UNCACHED_REQUEST_TOKENS, "mine"),
    ]
