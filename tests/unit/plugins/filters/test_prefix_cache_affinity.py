"""Endpoints that hold the prompt, and when that no longer counts."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.data import Output
from epp.framework.data_types import (
    IN_FLIGHT_LOAD,
    LATENCY_PREDICTION,
    PREFIX_MATCH,
    InFlightLoad,
    LatencyPrediction,
    PrefixMatch,
)
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.plugins.filters.prefix_cache_affinity import (
    PrefixCacheAffinityFilter,
    PrefixCacheAffinityParameters,
)
from epp.testing import FakeContext, built, endpoint_of, put, request_of


def scene(*shares: int | None) -> tuple[InferenceRequest, list[Endpoint]]:
    """A request, and endpoints that hold these of its 10 blocks."""
    request = request_of()
    endpoints = [endpoint_of(f"e{number}") for number in range(1, len(shares) + 1)]
    put(
        PREFIX_MATCH,
        request,
        {
            endpoint: PrefixMatch(blocks, 10, 64)
            for endpoint, blocks in zip(endpoints, shares, strict=True)
            if blocks is not None
        },
    )
    return request, endpoints


def in_flight(endpoint: Endpoint, tokens: int) -> None:
    producer = IN_FLIGHT_LOAD.default_producer
    Output(IN_FLIGHT_LOAD, producer).put_on(endpoint, InFlightLoad(1, tokens))


def test_endpoints_at_the_threshold_are_kept() -> None:
    request, endpoints = scene(8, 7, 10, None)

    kept = built(PrefixCacheAffinityFilter).filter(request, endpoints)

    assert kept == [endpoints[0], endpoints[2]]


@pytest.mark.parametrize(
    ("shares", "parameters"),
    [
        ((10,), {}),
        ((7, 3), {}),
        ((9, 9), {}),
        ((None, None), {}),
        ((10, 0), {"affinity_threshold": 0.0}),
        ((10, 0), {"affinity_threshold": -1.0}),
        ((10, 0), {"exploration_probability": 1.0}),
    ],
    ids=["one", "none sticky", "all sticky", "unknown", "off", "below", "exploring"],
)
def test_all_are_kept_when_stickiness_says_nothing(
    shares: tuple[int | None, ...], parameters: dict[str, Any]
) -> None:
    request, endpoints = scene(*shares)

    assert built(PrefixCacheAffinityFilter, **parameters).filter(request, endpoints) == endpoints


@pytest.mark.parametrize(
    ("tokens", "penalty", "is_sticky"),
    [(15000, 10_000, True), (25000, 10_000, True), (25001, 10_000, False), (25001, 0, True)],
)
def test_a_cache_hit_may_cost_so_much_time_and_no_more(
    tokens: int, penalty: float, is_sticky: bool
) -> None:
    request, endpoints = scene(10, 10, 0, 0)
    for endpoint, load in zip(endpoints, (tokens, tokens + 1, 15000, 99999), strict=True):
        in_flight(endpoint, load)
    made = built(
        PrefixCacheAffinityFilter, max_ttft_penalty_ms=penalty, peak_prefill_throughput=1000.0
    )

    kept = made.filter(request, endpoints)

    assert kept == (endpoints[:2] if is_sticky else endpoints)


def test_nothing_known_of_the_load_counts_as_none() -> None:
    request, endpoints = scene(10, 0)
    in_flight(endpoints[0], 20_000)
    made = built(PrefixCacheAffinityFilter, max_ttft_penalty_ms=1.0, peak_prefill_throughput=1000.0)

    assert made.filter(request, endpoints) == endpoints


@pytest.mark.parametrize(
    ("sticky", "other", "is_sticky"),
    [
        (500.0, 100.0, True),
        (5000.0, 100.0, False),
        (None, 100.0, False),
        (500.0, None, True),
        (None, None, True),
    ],
)
def test_predicted_times_count_and_a_missing_one_is_the_longest(
    sticky: float | None, other: float | None, is_sticky: bool
) -> None:
    request, endpoints = scene(10, 0)
    put(
        LATENCY_PREDICTION,
        request,
        {
            endpoint: LatencyPrediction(ttft=ttft)
            for endpoint, ttft in zip(endpoints, (sticky, other), strict=True)
            if ttft is not None
        },
    )
    made = built(
        PrefixCacheAffinityFilter, ttft_source="latencyPredictor", max_ttft_penalty_ms=1000.0
    )

    assert made.filter(request, endpoints) == (endpoints[:1] if is_sticky else endpoints)


def test_a_predictor_is_optional_and_is_asked_for_only_when_it_is_the_source() -> None:
    throughput, predictor = FakeContext(), FakeContext()

    built(PrefixCacheAffinityFilter, throughput)
    built(PrefixCacheAffinityFilter, predictor, ttft_source="latencyPredictor")

    assert [made.data_type for made in throughput.inputs] == [PREFIX_MATCH, IN_FLIGHT_LOAD]
    assert [made.data_type for made in predictor.inputs] == [PREFIX_MATCH, LATENCY_PREDICTION]
    assert not predictor.inputs[1].required


def test_parameters_are_spelled_as_in_the_reference() -> None:
    read = PrefixCacheAffinityParameters.model_validate(
        {"maxTTFTPenaltyMs": 5, "ttftSource": "latencyPredictor", "affinityThreshold": 1}
    )

    assert (read.max_ttft_penalty_ms, read.affinity_threshold) == (5, 1)


@pytest.mark.parametrize(
    "parameters",
    [
        {"affinity_threshold": 1.1},
        {"exploration_probability": 1.1},
        {"max_ttft_penalty_ms": -1.0},
        {"peak_prefill_throughput": 0.0},
        {"ttft_source": "guess"},
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        built(PrefixCacheAffinityFilter, **parameters)
