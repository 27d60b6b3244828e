"""Scores relative to the other candidates."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.plugins.scorers.scaling import greatest_is_best, least_is_best, scaled_where_known

numbers = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50)


@given(numbers)
def test_the_ends_of_the_range_score_1_and_0(values: list[float]) -> None:
    scores = least_is_best(values)

    assert all(0 <= score <= 1 for score in scores)
    assert scores[values.index(min(values))] == 1
    assert scores[values.index(max(values))] == (0 if min(values) < max(values) else 1)


@given(numbers)
def test_the_two_rules_mirror_each_other(values: list[float]) -> None:
    assert greatest_is_best(values) == least_is_best([-value for value in values])


@given(numbers)
def test_a_lesser_value_never_scores_less(values: list[float]) -> None:
    scores = dict(zip(values, least_is_best(values), strict=True))

    in_order = [scores[value] for value in sorted(scores)]
    assert in_order == sorted(in_order, reverse=True)


@pytest.mark.parametrize("rule", [least_is_best, greatest_is_best])
def test_equal_values_all_score_1(rule: type) -> None:
    assert rule([7, 7, 7]) == [1, 1, 1]


@pytest.mark.parametrize("strange", [None, nan, inf, -inf])
def test_what_is_not_known_takes_no_part(strange: float | None) -> None:
    assert scaled_where_known([3, strange, 1, 2], least_first=True, unknown=0.25) == [
        0,
        0.25,
        1,
        0.5,
    ]
    assert scaled_where_known([3, strange, 1], least_first=False, unknown=0) == [1, 0, 0]


def test_nothing_known_is_no_reason_to_fail() -> None:
    scores = scaled_where_known([None, None], least_first=True, unknown=nan)

    assert [isnan(score) for score in scores] == [True, True]
