"""`latency-scorer`."""

from __future__ import annotations

from typing import Any

import pytest

from epp.framework.data_types import (
    LATENCY_PREDICTION,
    PREFIX_MATCH,
    LatencyPrediction,
    PrefixMatch,
)
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.plugins.scorers.latency import LatencyScorer
from epp.testing import FakeContext, built, endpoint_of, put, request_of

MIXED = [(100, 20), (300, 5), (200, 20)]
BEHIND = [(-50, 10), (30, -4), (60, -9), (-9, -9)]


def predicted(
    headrooms: list[tuple[float, float] | None], dispatched: list[int] | None = None
) -> tuple[InferenceRequest, list[Endpoint]]:
    request = request_of()
    endpoints = [endpoint_of(f"e{index}") for index in range(len(headrooms))]
    counts = dispatched or [1] * len(headrooms)
    put(
        LATENCY_PREDICTION,
        request,
        {
            endpoint: LatencyPrediction(
                ttft_headroom=headroom[0], tpot_headroom=headroom[1], dispatched_request_count=count
            )
            for endpoint, headroom, count in zip(endpoints, headrooms, counts, strict=True)
            if headroom is not None
        },
    )
    return request, endpoints


@pytest.mark.parametrize(
    ("parameters", "headrooms", "dispatched", "expected"),
    [
        pytest.param({}, MIXED, None, [0.81, 0.2, 0.4], id="G21"),
        pytest.param(
            {"headroom_selection_strategy": "most"}, MIXED, None, [0.21, 0.81, 0.61], id="G22"
        ),
        pytest.param({}, [(50, 10), (-5, 10)], None, [0.51, 0], id="G23"),
        pytest.param({}, BEHIND, [3, 2, 2, 2], [0, 1.01, 0.01, 0], id="G24"),
        pytest.param(
            {"headroom_selection_strategy": "?"}, MIXED, None, [0.81, 0.2, 0.4], id="any is least"
        ),
        pytest.param(
            {"headroom_selection_strategy": "most"},
            BEHIND,
            None,
            [0, 1.01, 0.01, 0],
            id="behind is always least",
        ),
        pytest.param({}, BEHIND, [3, 2, 2, 0], [0, 0, 0, 0.51], id="idle first"),
        pytest.param(
            {}, [(-50, 10), (-9, -9), (-20, 3)], None, [0.01, 0, 1.01], id="ttft before both"
        ),
        pytest.param({}, [(-50, -1), (-10, -1)], None, [0.01, 1.01], id="both behind"),
        pytest.param({}, [None, (-5, 10)], None, [0.51, 0], id="not predicted is not behind"),
        pytest.param({}, [(10, 5), (30, 5)], None, [1.01, 0.01], id="equal tpot"),
        pytest.param({}, [(10, 5), (10, 9)], None, [1.01, 0.01], id="equal ttft"),
        pytest.param(
            {"ttft_weight": 0.0, "tpot_weight": 0.0},
            MIXED,
            None,
            [1.01, 0.01, 0.51],
            id="no weight",
        ),
        pytest.param(
            {"ttft_weight": 0.0, "tpot_weight": 3.0}, MIXED, None, [0.01, 1.01, 0.01], id="tpot"
        ),
    ],
)
def test_scores_are_the_references(
    parameters: dict[str, Any],
    headrooms: list[tuple[float, float] | None],
    dispatched: list[int] | None,
    expected: list[float],
) -> None:
    request, endpoints = predicted(headrooms, dispatched)

    scores = built(LatencyScorer, **parameters).score(request, endpoints)

    assert scores == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param({}, [0.67, 0.17, 0.75], id="G25"),
        pytest.param(
            {"compositeKVWeight": 0, "composite_queue_weight": 0, "composite_prefix_weight": 0},
            [0.75, 0.5, 0.25],
            id="no weight is KV cache only",
        ),
        pytest.param(
            {"compositeKVWeight": 0, "composite_queue_weight": 2, "composite_prefix_weight": 0},
            [0.75, 0, 1],
            id="queue only",
        ),
        pytest.param(
            {"compositeKVWeight": 0, "composite_queue_weight": 0, "composite_prefix_weight": 9},
            [0.5, 0, 1],
            id="prefix only",
        ),
    ],
)
def test_without_predictions_cache_queue_and_prefix_decide(
    parameters: dict[str, Any], expected: list[float]
) -> None:
    request = request_of()
    endpoints = [
        endpoint_of("e1", waiting=2, kv=0.25),
        endpoint_of("e2", waiting=8, kv=0.5),
        endpoint_of("e3", waiting=0, kv=0.75),
    ]
    matches = [PrefixMatch(4, 8, 64), PrefixMatch(0, 8, 64), PrefixMatch(8, 8, 64)]
    put(PREFIX_MATCH, request, dict(zip(endpoints, matches, strict=True)))

    scores = built(LatencyScorer, **parameters).score(request, endpoints)

    assert scores == pytest.approx(expected, abs=5e-7)


def test_without_any_data_all_are_equal_but_for_the_prefix() -> None:
    scores = built(LatencyScorer).score(request_of(), [endpoint_of("e1"), endpoint_of("e2")])

    assert scores == [0.67, 0.67]


def test_a_prompt_that_nobody_has_cached_goes_where_nobody_waits() -> None:
    loaded = endpoint_of("e1", waiting=40)
    idle = endpoint_of("e2", kv=0.6)

    one, other = built(LatencyScorer).score(request_of(), [loaded, idle])

    assert other > one


def test_predictions_are_optional_unless_their_producer_is_named() -> None:
    unnamed, named = FakeContext(), FakeContext()

    built(LatencyScorer, unnamed)
    built(LatencyScorer, named, latency_prediction_info_producer_name="mine")

    assert [made.data_type for made in unnamed.inputs if made.required] == [PREFIX_MATCH]
    assert [made.data_type for made in named.inputs if made.required] == [
        LATENCY_PREDICTION,
        PREFIX_MATCH,
    ]
