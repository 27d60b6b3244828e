from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epp.observability.label_caps import MAX_VALUE_LENGTH, OTHER, LabelCap


def test_values_beyond_the_limit_are_other_and_known_ones_stay() -> None:
    cap = LabelCap(2)

    admitted = [cap.admit(value) for value in ("a", "b", "c", "a", "b", "d")]

    assert admitted == ["a", "b", OTHER, "a", "b", OTHER]


def test_the_empty_value_stays_empty_and_takes_no_slot() -> None:
    cap = LabelCap(1)

    assert [cap.admit(""), cap.admit("a"), cap.admit("")] == ["", "a", ""]


def test_an_overlong_value_is_other_and_takes_no_slot() -> None:
    cap = LabelCap(1)

    assert cap.admit("x" * (MAX_VALUE_LENGTH + 1)) == OTHER
    assert cap.admit("a") == "a"


def test_text_that_utf8_cannot_carry_is_replaced() -> None:
    assert LabelCap(1).admit("m\ud800") == "m?"


@given(values=st.lists(st.text(max_size=8), max_size=60), limit=st.integers(0, 10))
def test_never_more_distinct_values_than_the_limit(values: list[str], limit: int) -> None:
    cap = LabelCap(limit)

    admitted = {cap.admit(value) for value in values}

    assert len(admitted - {"", OTHER}) <= limit
    assert all(value.encode() or not value for value in admitted)
