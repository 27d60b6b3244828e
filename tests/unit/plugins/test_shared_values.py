from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data_types import PrefixMatch
from epp.plugins.shared_values import computed_once

MATCHES = [None, *(PrefixMatch(blocks, 4, 16) for blocks in (0, 2, 2))]


@given(st.lists(st.sampled_from(MATCHES), min_size=1))
def test_every_value_gets_its_result_and_no_object_is_computed_twice(
    values: list[PrefixMatch | None],
) -> None:
    computed: list[PrefixMatch | None] = []

    def blocks(match: PrefixMatch | None) -> int:
        computed.append(match)
        return -1 if match is None else match.match_blocks

    results = computed_once(blocks, values)

    assert results == [-1 if each is None else each.match_blocks for each in values]
    assert sorted(map(id, computed)) == sorted({id(each) for each in values})
