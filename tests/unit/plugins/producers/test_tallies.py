"""Counting the bits of many masks at once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from epp.plugins.producers.tallies import selected, tally


@given(st.lists(st.tuples(st.integers(0, 1 << 70), st.integers(0, 5000))))
def test_each_bit_is_counted_with_the_weights_of_its_masks(masks: list[tuple[int, int]]) -> None:
    expected: Counter[int] = Counter()
    for mask, weight in masks:
        expected.update({bit: weight for bit in range(71) if mask >> bit & 1})

    groups = tally(masks)

    found = {bit: count for bits, count in groups for bit in selected(list(range(71)), bits)}
    assert found == {bit: count for bit, count in expected.items() if count}
    assert len({count for _, count in groups}) == len(groups)


def test_nothing_is_counted_of_nothing() -> None:
    assert tally([]) == []
