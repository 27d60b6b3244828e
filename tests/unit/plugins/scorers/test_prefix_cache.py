"""Scores by matched prefix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data_types import PREFIX_MATCH, PrefixMatch
from epp.plugins.scorers.prefix_cache import PrefixCacheParameters, PrefixCacheScorer
from epp.testing import built, endpoint_of, put, request_of


@pytest.mark.parametrize(
    ("weight", "scale", "matches", "expected"),
    [
        pytest.param(
            0.0,
            8192,
            [(5, 8), (0, 8), (8, 8), None, (0, 0)],
            [0.625, 0, 1, 0, 0],
            id="G11",
        ),
        pytest.param(0.25, 2048, [(16, 32), (32, 32), (8, 32)], [0.4375, 1, 0.203125], id="G12"),
        pytest.param(1.0, 8192, [(64, 64), (200, 400)], [0.25, 1], id="G13"),
    ],
)
def test_score_is_the_matched_share_mixed_with_its_length(
    weight: float, scale: int, matches: list[tuple[int, int] | None], expected: list[float]
) -> None:
    scorer = built(PrefixCacheScorer, match_length_weight=weight, match_length_scale_tokens=scale)
    endpoints = [endpoint_of(f"e{number}") for number in range(len(matches))]
    request = request_of()
    found = {
        endpoint: PrefixMatch(*match, 64)
        for endpoint, match in zip(endpoints, matches, strict=True)
        if match is not None
    }
    put(PREFIX_MATCH, request, found)

    assert scorer.score(request, endpoints) == pytest.approx(expected, abs=1e-6)


@given(
    blocks=st.lists(st.none() | st.integers(0, 3) | st.just(0), min_size=1, max_size=40),
    weight=st.sampled_from([0.0, 0.25]),
)
def test_an_endpoint_scores_the_same_however_many_others_hold_something(
    blocks: list[int | None], weight: float
) -> None:
    scorer = built(PrefixCacheScorer, match_length_weight=weight)
    endpoints = [endpoint_of(f"e{number}") for number in range(len(blocks))]
    request = request_of()
    found = {
        endpoint: PrefixMatch(count, 3, 64)
        for endpoint, count in zip(endpoints, blocks, strict=True)
        if count is not None
    }
    put(PREFIX_MATCH, request, found)

    alone = [scorer.score(request, [endpoint])[0] for endpoint in endpoints]

    assert list(scorer.score(request, endpoints)) == alone


def test_without_any_match_data_everybody_gets_0() -> None:
    assert built(PrefixCacheScorer).score(request_of(), [endpoint_of("e1")]) == [0.0]


def test_matches_of_the_named_producer_are_read() -> None:
    scorer = built(PrefixCacheScorer, prefix_match_info_producer_name="mine")
    endpoint, request = endpoint_of("e1"), request_of()
    put(PREFIX_MATCH, request, {endpoint: PrefixMatch(1, 4, 64)}, producer="mine")

    assert scorer.score(request, [endpoint]) == [0.25]


@pytest.mark.parametrize(
    "parameters",
    [
        {"matchLengthWeight": -0.1},
        {"matchLengthWeight": 1.1},
        {"matchLengthWeight": 0.5, "matchLengthScaleTokens": 0},
    ],
    ids=["negative", "over one", "no scale"],
)
def test_a_weight_outside_of_0_to_1_or_without_a_scale_is_refused(
    parameters: dict[str, float],
) -> None:
    with pytest.raises(ValueError, match="matchLength"):
        PrefixCacheParameters.model_validate(parameters)
