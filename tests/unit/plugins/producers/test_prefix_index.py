"""The prefix index against models of it that are slow and obvious."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from epp.framework.endpoint import Endpoint, EndpointId
from epp.plugins.producers.prefix_index import PrefixIndex
from tests.fakes.plugin_context import endpoint_of

POOL = tuple(endpoint_of(str(number)) for number in range(5))
ENDPOINTS = [endpoint.id for endpoint in POOL]
Chain: TypeAlias = list[int]

endpoints = st.sampled_from(ENDPOINTS)
chains = st.lists(st.integers(0, 40), max_size=12, unique=True)


def matches(
    index: PrefixIndex, *chains: Sequence[int], endpoints: Sequence[Endpoint] = POOL
) -> dict[EndpointId, int]:
    return {endpoint.id: count for endpoint, count in index.match(chains, endpoints).items()}


class NaiveIndex:
    """A set of blocks for each endpoint, or an LRU of so many, as the reference has it."""

    def __init__(self, capacity: int | None = None) -> None:
        self.blocks: dict[EndpointId, OrderedDict[int, None]] = {}
        self._capacity = capacity

    def insert(self, endpoint: EndpointId, chain: Chain) -> None:
        held = self.blocks.setdefault(endpoint, OrderedDict())
        for block in reversed(chain):
            held[block] = None
            held.move_to_end(block)
            if self._capacity is not None and len(held) > self._capacity:
                held.popitem(last=False)

    def match(self, chain: Chain) -> dict[EndpointId, int]:
        counts: dict[EndpointId, int] = {}
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
        self.index = PrefixIndex(1000)
        self.model = NaiveIndex()
        self.removed: set[EndpointId] = set()

    @rule(endpoint=endpoints, chain=chains)
    def insert(self, endpoint: EndpointId, chain: Chain) -> None:
        self.index.insert(endpoint, 50, chain)
        if endpoint not in self.removed:
            self.model.insert(endpoint, chain)

    @rule(endpoint=endpoints)
    def remove(self, endpoint: EndpointId) -> None:
        self.index.remove(endpoint)
        self.model.blocks.pop(endpoint, None)
        self.removed.add(endpoint)

    @rule(endpoint=endpoints)
    def come_back(self, endpoint: EndpointId) -> None:
        self.index.admit(endpoint)
        self.removed.discard(endpoint)

    @rule(chain=chains)
    def match(self, chain: Chain) -> None:
        assert matches(self.index, chain) == self.model.match(chain)

    @invariant()
    def sizes_agree(self) -> None:
        held = {endpoint: len(blocks) for endpoint, blocks in self.model.blocks.items() if blocks}
        assert {e: size for e, size in self.index.sizes().items() if size} == held
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
    def insert(self, endpoint: EndpointId, chain: Chain) -> None:
        self.index.insert(endpoint, self.capacity, chain)
        self.model.insert(endpoint, chain)

    @rule(endpoint=endpoints)
    def replace(self, endpoint: EndpointId) -> None:
        self.index.remove(endpoint)
        self.index.admit(endpoint)
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


def test_a_hole_in_the_middle_is_not_seen_but_nobody_holding_a_block_ends_the_walk() -> None:
    index = PrefixIndex(1000)
    one, two, *_ = ENDPOINTS
    index.insert(one, 50, [1, 2, 3, 5])
    index.insert(two, 50, [1, 3])

    assert matches(index, [1, 2, 3, 4, 5]) == {one: 3, two: 2}


def test_only_the_endpoints_asked_about_are_told() -> None:
    index = PrefixIndex(1000)
    for endpoint in ENDPOINTS:
        index.insert(endpoint, 50, [1, 2])

    assert matches(index, [1, 2], endpoints=POOL[:2]) == dict.fromkeys(ENDPOINTS[:2], 2)
    assert matches(index, [1, 2], endpoints=list(POOL[3:])) == dict.fromkeys(ENDPOINTS[3:], 2)
    assert matches(index, [1, 2], endpoints=()) == {}


def test_several_prompts_are_summed_up() -> None:
    index = PrefixIndex(1000)
    one, two, *_ = ENDPOINTS
    index.insert(one, 50, [1, 2])
    index.insert(two, 50, [7])

    assert matches(index, [1, 2, 3], [7, 8], [9, 1]) == {one: 2, two: 1}


def test_a_chain_longer_than_the_cache_loses_its_tail_first() -> None:
    index = PrefixIndex(1000)
    [one, *_] = ENDPOINTS

    index.insert(one, 10, list(range(100)))
    index.insert(one, 10, list(range(200, 205)))

    assert matches(index, list(range(100)))[one] >= 10
    assert index.sizes()[one] < 20


def test_another_endpoint_keeps_what_it_has_while_one_is_over_its_capacity() -> None:
    index = PrefixIndex(1000)
    busy, idle, *_ = ENDPOINTS
    index.insert(idle, 50, [1, 2, 3])

    for start in range(100, 400, 10):
        index.insert(busy, 20, [1, *range(start, start + 10)])

    assert matches(index, [1, 2, 3]) == {idle: 3, busy: 1}


def test_the_slot_of_a_removed_endpoint_brings_nothing_to_the_next_one() -> None:
    index = PrefixIndex(1000)
    pool = tuple(endpoint_of(str(number)) for number in range(200))
    for number, endpoint in enumerate(pool):
        index.insert(endpoint.id, 50, [1, 2, number + 10])
        assert matches(index, [1, 2], endpoints=pool) == {endpoint.id: 2}
        index.remove(endpoint.id)
        assert matches(index, [1, 2], endpoints=pool) == {}


def test_200_000_different_prompts_stay_within_the_bound() -> None:
    index = PrefixIndex(16_384)
    rng = random.Random(5)
    most = 0

    for number in range(200_000):
        endpoint = ENDPOINTS[number % len(ENDPOINTS)]
        index.insert(endpoint, 31_250, [rng.getrandbits(64) for _ in range(4)])
        most = max(most, len(index))

    assert 8_000 < most <= 16_384
    assert len(index) > 4_000
    assert all(index.sizes()[endpoint] > 100 for endpoint in ENDPOINTS)


@given(st.lists(st.tuples(endpoints, st.integers(0, 3000), st.integers(1, 700))), st.data())
def test_the_bound_holds_whatever_the_lengths_of_prompts(
    inserts: list[tuple[EndpointId, int, int]], data: st.DataObject
) -> None:
    index = PrefixIndex(512)

    for endpoint, start, length in inserts:
        index.insert(endpoint, data.draw(st.integers(1, 400)), range(start, start + length))
        assert len(index) <= 512


def test_slots_are_used_again_while_endpoints_come_and_go() -> None:
    index = PrefixIndex(100_000)
    stays = endpoint_of("stays")
    index.insert(stays.id, 31_250, list(range(5000)))

    for number in range(3000):
        endpoint = EndpointId(f"uid-{number}", 8000)
        index.insert(endpoint, 31_250, list(range(100)))
        index.remove(endpoint)

    assert index.slots < 100
    assert matches(index, list(range(5000)), endpoints=[stays]) == {stays.id: 5000}
