from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from epp.config.graph import topological_order

NAMES = list("abcdefgh")


def test_order_is_kept_where_nothing_depends() -> None:
    assert topological_order(["b", "c", "a"], {"b": {"a"}}) == (["c", "a", "b"], [])


@given(st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES))))
def test_everything_comes_after_what_it_depends_on_or_a_circle_is_named(
    before: dict[str, set[str]],
) -> None:
    order, circle = topological_order(NAMES, before)

    for index, name in enumerate(order):
        assert before.get(name, set()) <= set(order[:index])
    assert bool(circle) == (len(order) < len(NAMES))
    assert len(set(circle)) == max(len(circle) - 1, 0)
    for reader, written in itertools.pairwise(circle):
        assert written in before[reader]
