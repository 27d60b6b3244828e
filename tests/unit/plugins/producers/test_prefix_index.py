"""The prefix index against models of it that are slow and obvious."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeAlias, overload

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from epp.framework.endpoint import Endpoint
from epp.plugins.producers.prefix_index import PrefixIndex
from epp.testing import endpoint_of

POOL = tuple(endpoint_of(str(number)) for number in range(5))
Chain: TypeAlias = list[int]


def chain_of(pieces: Iterable[int]) -> Chain:
    """Blocks of a prompt: each stands for all that comes before it, as hashes do."""
    return list(accumulate(pieces, lambda *block: hash(block), initial=0))[1:]


endpoints = st.sampled_from(POOL)
chains = st.lists(st.integers(0, 2), max_size=12).map(chain_of)


def matches(
    index: PrefixIndex, *chains: Sequence[int], endpoints: Sequence[Endpoint] = POOL
) -> dict[Endpoint, int]:
    return index.match(chains, endpoints)


def name_of(endpoint: Endpoint) -> str:
    return f"default/{endpoint.name}"


class NaiveIndex:
    """A set of blocks for each endpoint, or an LRU of so many, as the reference has it."""

    def __init__(self, capacity: int | None = None) -> None:
        self.blocks: dict[Endpoint, OrderedDict[int, None]] = {}
        self._capacity = capacity

    def insert(self, endpoint: Endpoint, chain: Chain) -> None:
        held = self.blocks.setdefault(endpoint, OrderedDict())
        for block in reversed(chain):
            held[block] = None
            held.move_to_end(block)
            if self._capacity is not None and len(held) > self._capacity:
                held.popitem(last=False)

    def match(self, chain: Chain) -> dict[Endpoint, int]:
        counts: dict[Endpoint, int] = {}
        for block in chain:
            holders = [endpoint for endpoint, held in self.blocks.items() if block in held]
            if not holders:
                break
            for endpoint in holders:
                counts[endpoint] = counts.get(endpoint, 0) + 1
        return counts


class BelowCapacity(RuleBasedStateMachine):
    """Nothing is forgotten but what removed endpoints held."""

    @initialize()
    def begin(self) -> None:
        self.index = PrefixIndex(100_000)
        self.model = NaiveIndex()
        self.removed: set[Endpoint] = set()

    @rule(endpoint=endpoints, chain=chains)
    def insert(self, endpoint: Endpoint, chain: Chain) -> None:
        self.index.insert(endpoint, 10_000, chain)
        if endpoint not in self.removed:
            self.model.insert(endpoint, chain)

    @rule(endpoint=endpoints)
    def remove(self, endpoint: Endpoint) -> None:
        self.index.remove(endpoint.id)
        self.model.blocks.pop(endpoint, None)
        self.removed.add(endpoint)

    @rule(endpoint=endpoints)
    def come_back(self, endpoint: Endpoint) -> None:
        self.index.admit(endpoint.id)
        self.removed.discard(endpoint)

    @rule(chain=chains)
    def match(self, chain: Chain) -> None:
        assert matches(self.index, chain) == self.model.match(chain)

    @invariant()
    def sizes_agree(self) -> None:
        held = {name_of(e): len(blocks) for e, blocks in self.model.blocks.items() if blocks}
        assert {name: size for name, size in self.index.sizes().items() if size} == held
        assert self.index.size == sum(held.values())


TestBelowCapacity = BelowCapacity.TestCase


class AtCapacity(RuleBasedStateMachine):
    """Endpoints are believed to hold all that an LRU would, and less than twice as much."""

    @initialize(capacity=st.integers(1, 20))
    def begin(self, capacity: int) -> None:
        self.capacity = capacity
        self.index = PrefixIndex(1000)
        self.model = NaiveIndex(capacity)

    @rule(endpoint=endpoints, chain=chains)
    def insert(self, endpoint: Endpoint, chain: Chain) -> None:
        self.index.insert(endpoint, self.capacity, chain)
        self.model.insert(endpoint, chain)

    @rule(endpoint=endpoints)
    def replace(self, endpoint: Endpoint) -> None:
        self.index.remove(endpoint.id)
        self.index.admit(endpoint.id)
        self.model.blocks.pop(endpoint, None)

    @rule(chain=chains)
    def match(self, chain: Chain) -> None:
        found = matches(self.index, chain)
        for endpoint, count in self.model.match(chain).items():
            assert found[endpoint] >= count

    @invariant()
    def sizes_are_bounded(self) -> None:
        assert all(size < 2 * self.capacity for size in self.index.sizes().values())
        assert self.index.size == sum(self.index.sizes().values())


TestAtCapacity = AtCapacity.TestCase


def test_every_holder_is_told_how_much_of_the_prompt_it_has() -> None:
    index = PrefixIndex(1000)
    one, two, three, *_ = POOL
    index.insert(one, 50, [1, 2, 3, 5])
    index.insert(two, 50, [1, 2])
    index.insert(three, 50, [7, 8])

    assert matches(index, [1, 2, 3, 4, 6]) == {one: 3, two: 2}


class CountedChain(Sequence[int]):
    """A chain that knows how many of its blocks have been looked at."""

    def __init__(self, blocks: Sequence[int]) -> None:
        self._blocks = blocks
        self.looked_at = 0

    def __len__(self) -> int:
        return len(self._blocks)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> CountedChain: ...
    def __getitem__(self, index: int | slice) -> int | CountedChain:
        if isinstance(index, slice):
            return CountedChain(self._blocks[index])
        self.looked_at += 1
        return self._blocks[index]


@pytest.mark.parametrize(
    ("held", "most_looks"),
    [([], 2), ([2048], 2), ([1], 13), ([1000], 14), ([2048, 1999, 1000, 5], 50)],
    ids=["nothing", "all", "the first block", "half", "different lengths"],
)
def test_a_long_prompt_is_matched_by_a_few_looks(held: list[int], most_looks: int) -> None:
    index = PrefixIndex(10_000)
    for endpoint, length in zip(POOL, held, strict=False):
        index.insert(endpoint, 5000, range(length))
    chain = CountedChain(range(2048))

    found = index.match([chain], POOL)

    assert found == dict(zip(POOL, held, strict=False))
    assert chain.looked_at <= most_looks


def test_only_the_endpoints_asked_about_are_told() -> None:
    index = PrefixIndex(1000)
    for endpoint in POOL:
        index.insert(endpoint, 50, [1, 2])

    assert matches(index, [1, 2], endpoints=POOL[:2]) == dict.fromkeys(POOL[:2], 2)
    assert matches(index, [1, 2], endpoints=list(POOL[3:])) == dict.fromkeys(POOL[3:], 2)
    assert matches(index, [1, 2], endpoints=()) == {}


def test_several_prompts_are_summed_up() -> None:
    index = PrefixIndex(1000)
    one, two, *_ = POOL
    index.insert(one, 50, [1, 2])
    index.insert(two, 50, [7])

    assert matches(index, [1, 2, 3], [7, 8], [9, 10]) == {one: 2, two: 1}


def test_a_chain_longer_than_the_cache_loses_its_tail_first() -> None:
    index = PrefixIndex(1000)
    [one, *_] = POOL

    index.insert(one, 10, list(range(100)))
    index.insert(one, 10, list(range(200, 205)))

    assert matches(index, list(range(100)))[one] >= 10
    assert index.sizes()[name_of(one)] < 20


def test_another_endpoint_keeps_what_it_has_while_one_is_over_its_capacity() -> None:
    index = PrefixIndex(1000)
    busy, idle, *_ = POOL
    index.insert(idle, 50, [1, 2, 3])

    for start in range(100, 400, 10):
        index.insert(busy, 20, [1, *range(start, start + 10)])

    assert matches(index, [1, 2, 3]) == {idle: 3, busy: 1}


def test_the_slot_of_a_removed_endpoint_brings_nothing_to_the_next_one() -> None:
    index = PrefixIndex(1000)
    pool = tuple(endpoint_of(str(number)) for number in range(200))
    for number, endpoint in enumerate(pool):
        index.insert(endpoint, 50, [1, 2, number + 10])
        assert matches(index, [1, 2], endpoints=pool) == {endpoint: 2}
        index.remove(endpoint.id)
        assert matches(index, [1, 2], endpoints=pool) == {}


@pytest.mark.parametrize(("prompts", "blocks"), [(1_000_000, 1), (200_000, 4)])
def test_a_million_different_prompts_stay_within_the_bound(prompts: int, blocks: int) -> None:
    """Pitfall 44, in entries rather than in bytes."""
    index = PrefixIndex(16_384)
    rng = random.Random(5)
    most = 0

    for number in range(prompts):
        endpoint = POOL[number % len(POOL)]
        index.insert(endpoint, 31_250, [rng.getrandbits(64) for _ in range(blocks)])
        most = max(most, len(index))

    assert 8_000 < most <= 16_384
    assert len(index) > 4_000
    assert index.slots < 100
    assert all(index.sizes()[name_of(endpoint)] > 100 for endpoint in POOL)


@given(st.lists(st.tuples(endpoints, st.integers(0, 20), st.integers(1, 700))), st.data())
def test_the_bound_holds_whatever_the_lengths_of_prompts(
    inserts: list[tuple[Endpoint, int, int]], data: st.DataObject
) -> None:
    index = PrefixIndex(512)

    for endpoint, prompt, length in inserts:
        blocks = range(prompt * 1000, prompt * 1000 + length)
        index.insert(endpoint, data.draw(st.integers(1, 400)), blocks)
        assert len(index) <= 512


def test_slots_are_used_again_while_endpoints_come_and_go() -> None:
    index = PrefixIndex(100_000)
    stays = endpoint_of("stays")
    index.insert(stays, 31_250, list(range(5000)))

    for number in range(3000):
        endpoint = endpoint_of(str(number))
        index.insert(endpoint, 31_250, list(range(100)))
        index.remove(endpoint.id)

    assert index.slots < 100
    assert matches(index, list(range(5000)), endpoints=[stays]) == {stays: 5000}


def test_a_tiny_cache_beside_large_ones_does_not_make_masks_ever_wider() -> None:
    index = PrefixIndex(1_000_000)
    large, tiny, *_ = POOL
    index.insert(large, 400_000, range(300_000))

    for start in range(1_000_000, 1_300_000, 100):
        index.insert(tiny, 100, range(start, start + 100))

    assert index.slots < 1200
