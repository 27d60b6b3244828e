"""What every picker promises, and how each of them chooses."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.scheduling import Picker
from epp.plugins.pickers.max_score import MOST_REMEMBERED, MaxScorePicker
from epp.plugins.pickers.parameters import PickerParameters
from epp.plugins.pickers.random_choice import RandomPicker
from epp.plugins.pickers.weighted_random import WeightedRandomPicker
from epp.testing import FakeContext, built, endpoint_of, request_of

PICKERS = [MaxScorePicker, RandomPicker, WeightedRandomPicker]
ENDPOINTS = [endpoint_of(f"e{number}") for number in range(1, 9)]

totals_of_some = st.lists(
    st.floats(-5, 5) | st.sampled_from([0.0, 1.0, 5e-324]), min_size=1, max_size=8
)


def picks(picker: Picker, totals: list[float], times: int) -> list[str]:
    """Names of the first picks of `times` requests."""
    endpoints = ENDPOINTS[: len(totals)]
    return [picker.pick(request_of(), endpoints, totals)[0].pod_name for _ in range(times)]


@pytest.mark.parametrize("kind", PICKERS)
@given(totals=totals_of_some, limit=st.integers(-1, 10), seed=st.integers(0, 100))
def test_picks_are_different_candidates_as_many_as_asked_for(
    kind: type[Picker], totals: list[float], limit: int, seed: int
) -> None:
    endpoints = ENDPOINTS[: len(totals)]
    picker = built(kind, FakeContext(seed=seed), max_num_of_endpoints=limit)

    picked = picker.pick(request_of(), endpoints, totals)

    assert len(set(picked)) == len(picked) == min(max(limit, 1), len(endpoints))
    assert set(picked) <= set(endpoints)


@pytest.mark.parametrize("kind", PICKERS)
def test_a_seed_repeats_its_picks(kind: type[Picker]) -> None:
    first, second = (built(kind, FakeContext(seed=7)) for _ in range(2))

    assert picks(first, [1.0] * 8, 30) == picks(second, [1.0] * 8, 30)


@pytest.mark.parametrize(("given", "limit"), [(-1, 1), (0, 1), (1, 1), (3, 3)])
def test_a_limit_below_one_is_one(given: int, limit: int) -> None:
    parameters = PickerParameters.model_validate({"maxNumOfEndpoints": given})

    assert parameters.limit == limit


@given(totals=totals_of_some, limit=st.integers(1, 8))
def test_max_score_picks_the_highest_totals_in_order(totals: list[float], limit: int) -> None:
    endpoints = ENDPOINTS[: len(totals)]
    picker = built(MaxScorePicker, max_num_of_endpoints=limit)

    picked = picker.pick(request_of(), endpoints, totals)

    total_of = dict(zip(endpoints, totals, strict=True))
    assert [total_of[endpoint] for endpoint in picked] == sorted(totals, reverse=True)[:limit]


@given(totals=st.permutations([3.0, 2.0, 1.0, 0.5]))
def test_the_order_of_candidates_does_not_change_the_best(totals: list[float]) -> None:
    by_total = dict(zip(totals, ENDPOINTS, strict=False))

    assert picks(built(MaxScorePicker), totals, 3) == [by_total[3.0].pod_name] * 3


def test_equal_endpoints_take_turns_in_an_order_that_the_seed_chooses() -> None:
    orders = set()
    for seed in range(20):
        names = picks(built(MaxScorePicker, FakeContext(seed=seed)), [1.0] * 4, 40)

        assert names == names[:4] * 10
        assert len(set(names[:4])) == 4
        orders.add(tuple(names[:4]))
    assert len(orders) > 5


def test_a_single_best_endpoint_leaves_the_turns_of_the_others_alone() -> None:
    picker = built(MaxScorePicker)
    equal = picks(picker, [1.0, 1.0, 1.0], 3)

    assert picks(picker, [1.0, 1.0, 1.0, 2.0], 2) == ["e4", "e4"]
    assert picks(picker, [1.0, 1.0, 1.0], 3) == equal


def test_two_profiles_that_share_the_picker_do_not_take_each_others_turns() -> None:
    picker = built(MaxScorePicker)
    prefill, decode = ENDPOINTS[:2], ENDPOINTS[2:4]

    counts = Counter(
        picker.pick(request_of(), stage, [1.0, 1.0])[0].pod_name
        for _ in range(10)
        for stage in (prefill, decode)
    )

    assert counts == {"e1": 5, "e2": 5, "e3": 5, "e4": 5}


def test_an_endpoint_that_joins_its_equals_has_its_turn_next() -> None:
    picker = built(MaxScorePicker)
    picks(picker, [1.0, 1.0], 10)

    assert picks(picker, [1.0, 1.0, 1.0], 1) == ["e3"]


def test_fallbacks_take_turns_with_the_first() -> None:
    picker = built(MaxScorePicker, max_num_of_endpoints=3)
    totals = [1.0, 1.0, 1.0, 0.5]

    rows = [picker.pick(request_of(), ENDPOINTS[:4], totals) for _ in range(6)]

    firsts = [row[0].pod_name for row in rows]
    assert sorted(firsts[:3]) == ["e1", "e2", "e3"]
    assert firsts[3:] == firsts[:3]
    assert rows[4] == [rows[3][1], rows[3][2], rows[3][0]]


def test_turns_are_remembered_for_a_bounded_number_of_endpoints() -> None:
    picker = built(MaxScorePicker)
    ports = range(1, MOST_REMEMBERED + 500)
    pool = [endpoint_of(address=f"10.0.0.1:{port}") for port in ports]
    for endpoint in pool:
        picker.pick(request_of(), [endpoint], [1.0])

    forgotten = picker.pick(request_of(), [pool[0], pool[-1]], [1.0, 1.0])[0]

    assert forgotten is pool[0]
    assert len(picker._turns._last) <= MOST_REMEMBERED


def test_random_picks_are_even_whatever_the_totals() -> None:
    counts = Counter(picks(built(RandomPicker), [9.0, 0.0, -1.0, 1.0], 4000))

    assert all(900 < counts[name] < 1100 for name in ("e1", "e2", "e3", "e4"))


@pytest.mark.parametrize("seed", [1, 2, 3], ids=["G38-1", "G38-2", "G38-3"])
def test_weighted_picks_follow_the_totals(seed: int) -> None:
    picker = built(WeightedRandomPicker, FakeContext(seed=seed))

    counts = Counter(picks(picker, [3.0, 1.0, 0.0], 8000))

    assert counts["e1"] / 8000 == pytest.approx(0.75, abs=0.02)
    assert counts["e2"] / 8000 == pytest.approx(0.25, abs=0.02)
    assert counts["e3"] == 0


def test_second_weighted_picks_are_drawn_from_what_is_left() -> None:
    picker = built(WeightedRandomPicker, max_num_of_endpoints=2)

    seconds = Counter(
        picker.pick(request_of(), ENDPOINTS[:3], [2.0, 1.0, 1.0])[1].pod_name for _ in range(8000)
    )

    # P(second = e1) = 2 * 1/4 * 2/3
    assert seconds["e1"] / 8000 == pytest.approx(1 / 3, abs=0.02)


def test_endpoints_without_a_positive_total_fill_up_the_end() -> None:
    picker = built(WeightedRandomPicker, max_num_of_endpoints=4)

    rows = [picker.pick(request_of(), ENDPOINTS[:4], [0.0, 1e-300, -2.0, 5.0]) for _ in range(50)]

    assert all({row[0].pod_name, row[1].pod_name} == {"e2", "e4"} for row in rows)
    assert {row[2].pod_name for row in rows} == {"e1", "e3"}


def test_without_any_positive_total_weighted_picks_are_random() -> None:
    counts = Counter(picks(built(WeightedRandomPicker), [0.0, -1.0], 2000))

    assert all(900 < counts[name] < 1100 for name in ("e1", "e2"))
