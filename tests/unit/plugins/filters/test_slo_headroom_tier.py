"""Endpoints with headroom to the latency objectives, and those without."""

from __future__ import annotations

import pytest

from epp.framework.data_types import LATENCY_PREDICTION, LatencyPrediction
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.plugins.filters.slo_headroom_tier import SloHeadroomTierFilter
from epp.testing import FakeContext, built, endpoint_of, put, request_of

Headroom = tuple[float, float] | None


def scene(*headrooms: Headroom) -> tuple[InferenceRequest, list[Endpoint]]:
    request = request_of()
    endpoints = [endpoint_of(f"e{number}") for number in range(1, len(headrooms) + 1)]
    put(
        LATENCY_PREDICTION,
        request,
        {
            endpoint: LatencyPrediction(ttft_headroom=headroom[0], tpot_headroom=headroom[1])
            for endpoint, headroom in zip(endpoints, headrooms, strict=True)
            if headroom is not None
        },
    )
    return request, endpoints


@pytest.mark.parametrize(
    ("headrooms", "epsilon", "kept"),
    [
        (((0, 0), (5, -1), (-1, 5), None), 0.0, [0]),
        (((0, 0), (5, -1), (-1, 5), None), 1.0, [1, 2, 3]),
        (((1, 1), (2, 2)), 1.0, [0, 1]),
        (((-1, 1), None), 0.0, [0, 1]),
        ((None, None), 0.0, [0, 1]),
        (((-1, -1),), 0.0, [0]),
    ],
    ids=["positive", "exploring", "all positive", "all negative", "unpredicted", "one"],
)
def test_one_tier_is_kept(headrooms: tuple[Headroom, ...], epsilon: float, kept: list[int]) -> None:
    request, endpoints = scene(*headrooms)
    made = built(SloHeadroomTierFilter, epsilon_explore_neg=epsilon)

    assert made.filter(request, endpoints) == [endpoints[place] for place in kept]


def test_the_worse_tier_is_tried_as_often_as_is_configured() -> None:
    request, endpoints = scene((1, 1), (-1, -1))
    made = built(SloHeadroomTierFilter, FakeContext(seed=3), epsilon_explore_neg=0.25)

    explored = sum(made.filter(request, endpoints) == endpoints[1:] for _ in range(4000))

    assert 900 < explored < 1100


def test_predictions_are_optional() -> None:
    context = FakeContext()

    built(SloHeadroomTierFilter, context, latency_prediction_info_producer_name="p")

    assert [(made.producer, made.required) for made in context.inputs] == [("p", False)]
