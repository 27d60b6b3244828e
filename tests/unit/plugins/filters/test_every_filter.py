"""What holds for filters whatever their endpoints and requests are like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from epp.framework.scheduling import Filter
from epp.plugins.filters.by_label import ByLabelFilter
from epp.plugins.filters.header_based_testing import HeaderBasedTestingFilter
from epp.plugins.filters.label_selector import LabelSelectorFilter
from epp.plugins.filters.prefix_cache_affinity import PrefixCacheAffinityFilter
from epp.plugins.filters.role import DecodeFilter, EncodeFilter, PrefillFilter
from epp.plugins.filters.session_affinity import SessionAffinityFilter
from epp.plugins.filters.slo_headroom_tier import SloHeadroomTierFilter
from epp.plugins.filters.utilization import UtilizationFilter
from epp.plugins.saturation.concurrency import ConcurrencyDetector
from epp.plugins.saturation.utilization import UtilizationDetector
from epp.testing import built, endpoint_of, put, request_of

FILTERS: list[tuple[type[Filter], dict[str, Any]]] = [
    (LabelSelectorFilter, {"match_expressions": [{"key": "a", "operator": "Exists"}]}),
    (ByLabelFilter, {"label": "a", "valid_values": ["b"]}),
    (DecodeFilter, {}),
    (PrefillFilter, {}),
    (EncodeFilter, {}),
    (UtilizationFilter, {"conditions": [{"metric": "active-requests", "max_value": 3}]}),
    (UtilizationFilter, {"conditions": [{"metric": "kv-cache-utilization", "max_value": 0.5}]}),
    (SessionAffinityFilter, {}),
    (SessionAffinityFilter, {"strategy": "session_id"}),
    (PrefixCacheAffinityFilter, {"exploration_probability": 0.5}),
    (PrefixCacheAffinityFilter, {"ttft_source": "latencyPredictor"}),
    (SloHeadroomTierFilter, {"epsilon_explore_neg": 0.5}),
    (HeaderBasedTestingFilter, {}),
    (UtilizationDetector, {}),
    (ConcurrencyDetector, {"concurrency_mode": "hybrid"}),
]

counts = st.integers(0, 2**63)
numbers = st.floats(allow_nan=True, allow_infinity=True)
words = st.sampled_from(["a", "b", "llm-d.ai/role", "decode", "both", ""]) | st.text(max_size=5)


@st.composite
def endpoints(draw: st.DrawFn) -> Endpoint:
    made = endpoint_of(
        f"e{draw(st.integers(1, 250))}",
        labels=draw(st.dictionaries(words, words, max_size=3)),
        waiting=draw(counts),
        running=draw(counts),
        kv=draw(numbers),
        updated_at=draw(st.none() | st.floats(0, 2000)),
    )
    made.state.is_stale = draw(st.booleans())
    if draw(st.booleans()):
        load = InFlightLoad(draw(counts), draw(counts))
        Output(IN_FLIGHT_LOAD, IN_FLIGHT_LOAD.default_producer).put_on(made, load)
    return made


matches = st.builds(PrefixMatch, st.integers(0, 9), st.integers(0, 9), st.just(64))
predictions = st.builds(
    LatencyPrediction,
    ttft=numbers,
    tpot=numbers,
    ttft_headroom=numbers,
    tpot_headroom=numbers,
    ttft_valid=st.booleans(),
)
addresses = st.sampled_from(["10.0.0.1", "10.0.0.1:8000", "[::1]", ",", ":"]) | st.text(max_size=9)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[InferenceRequest, list[Endpoint]]:
    drawn = draw(st.lists(endpoints(), max_size=6))
    request = request_of(
        headers={
            "test-epp-endpoint-selection": ",".join(draw(st.lists(addresses, max_size=4))),
            "x-session-token": draw(st.sampled_from(["", "ZGVmYXVsdC9lMS1yYW5rLTA="]) | words),
            "x-session-id": draw(words),
        }
    )
    put(PREFIX_MATCH, request, {e: draw(matches) for e in drawn if draw(st.booleans())})
    put(LATENCY_PREDICTION, request, {e: draw(predictions) for e in drawn if draw(st.booleans())})
    return request, drawn


@pytest.mark.parametrize(("kind", "parameters"), FILTERS)
@settings(max_examples=40)
@given(scene=scenes())
def test_a_filter_gives_some_of_its_endpoints_and_none_twice(
    kind: type[Filter], parameters: dict[str, Any], scene: tuple[InferenceRequest, list[Endpoint]]
) -> None:
    request, candidates = scene
    before = list(candidates)

    kept = built(kind, **parameters).filter(request, candidates)

    assert len(set(kept)) == len(kept)
    assert set(kept) <= set(candidates)
    assert candidates == before
    assert kept is not candidates


@pytest.mark.parametrize(("kind", "parameters"), FILTERS)
def test_of_no_endpoints_none_are_kept(kind: type[Filter], parameters: dict[str, Any]) -> None:
    assert built(kind, **parameters).filter(request_of(), []) == []


def test_two_endpoints_at_one_address_are_both_kept() -> None:
    first = endpoint_of("e1")
    second = replace(first, labels={"a": "b"})
    request = request_of(headers={"test-epp-endpoint-selection": "10.0.0.1:8000"})

    assert built(HeaderBasedTestingFilter).filter(request, [first, second]) == [first, second]
