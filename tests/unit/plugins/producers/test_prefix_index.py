"""The prefix index against models of it that are slow and obvious."""

from __future__ import annotations

import random
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from epp.framework.endpoint import Endpoint
from epp.plugins.producers.block_runs import BlockRuns, packed
from epp.plugins.producers.prefix_index import PrefixIndex
from epp.testing import endpoint_of

POOL = tuple(endpoint_of(str(number)) for number in range(5))
Chain: TypeAlias = list[int]


def chain_of(pieces: Iterable[int]) -> Chain:
    """Blocks of a prompt: each stands for all that comes before it, as hashes do."""
    blocks = accumulate(pieces, lambda *block: hash(block) % 2**64, initial=0)
    return list(blocks)[1:]


endpoints = st.sampled_from(POOL)
chains = st.lists(st.integers(0, 2), max_size=12).map(chain_of)
long_chains = st.lists(st.integers(0, 1), max_size=40).map(chain_of)


def insert(index: PrefixIndex, endpoint: Endpoint, capacity: int, chain: Iterable[int]) -> None:
    index.insert(endpoint, capacity, packed(chain))


def matches(
    index: PrefixIndex, *chains: Iterable[int], endpoints: Sequence[Endpoint] = POOL
) -> dict[Endpoint, int]:
    return index.match(map(packed, chains), endpoints)


def name_of(endpoint: Endpoint) -> str:
    return f"default/{endpoint.name}"


class Lru:
    """What an endpoint holds by the reference: the blocks used last."""

    def __init__(self, capacity: int) -> None:
        self.blocks: OrderedDict[int, None] = OrderedDict()
        self._capacity = capacity

    def insert(self, chain: Chain) -> None:
        for block in reversed(chain):
            self.blocks[block] = None
            self.blocks.move_to_end(block)
            if len(self.blocks) > self._capacity:
                self.blocks.popitem(last=False)


class Generations:
    """What an endpoint is believed to hold: two sets of blocks."""

    def __init__(self, capacity: int) -> None:
        self.current: set[int] = set()
        self.previous: set[int] = set()
        self._capacity = capacity

    @property
    def blocks(self) -> set[int]:
        return self.current | self.previous

    def insert(self, chain: Chain) -> None:
        if len(chain) > self._capacity:
            self._turn()
        for block in reversed(chain[: self._capacity]):
            if block not in self.current:
                self.current.add(block)
                self.previous.discard(block)
                if len(self.current) >= self._capacity:
                    self._turn()

    def _turn(self) -> None:
        self.previous, self.current = self.current, set()


class AnIndex(RuleBasedStateMachine):
    """Agrees with sets of blocks, whether they have room for all of them or not."""

    bound = 100_000

    @initialize(capacity=st.integers(1, 20) | st.just(10_000))
    def begin(self, capacity: int) -> None:
        self.capacity = capacity
        self.index = PrefixIndex(self.bound)
        self.believed: dict[Endpoint, Generations] = {}
        self.lru: dict[Endpoint, Lru] = {}
        self.removed: set[Endpoint] = set()

    @rule(endpoint=endpoints, chain=chains | long_chains)
    def insert(self, endpoint: Endpoint, chain: Chain) -> None:
        insert(self.index, endpoint, self.capacity, chain)
        if endpoint not in self.removed:
            self.believed.setdefault(endpoint, Generations(self.capacity)).insert(chain)
            self.lru.setdefault(endpoint, Lru(self.capacity)).insert(chain)

    @rule(endpoint=endpoints)
    def remove(self, endpoint: Endpoint) -> None:
        self.index.remove(endpoint.id)
        self.believed.pop(endpoint, None)
        self.lru.pop(endpoint, None)
        self.removed.add(endpoint)

    @rule(endpoint=endpoints)
    def come_back(self, endpoint: Endpoint) -> None:
        self.index.admit(endpoint.id)
        self.removed.discard(endpoint)

    @rule(chain=chains | long_chains)
    def match(self, chain: Chain) -> None:
        found = matches(self.index, chain)
        held = {e: len(of.blocks.intersection(chain)) for e, of in self.believed.items()}
        assert found == {endpoint: count for endpoint, count in held.items() if count}
        for endpoint, lru in self.lru.items():
            assert found.get(endpoint, 0) >= len(lru.blocks.keys() & set(chain))

    @invariant()
    def sizes_agree(self) -> None:
        held = {name_of(e): len(of.blocks) for e, of in self.believed.items() if of.blocks}
        assert {name: size for name, size in self.index.sizes().items() if size} == held
        assert self.index.size == sum(held.values())
        assert len(self.index) >= len(set().union(*(of.blocks for of in self.believed.values())))


TestAnIndex = AnIndex.TestCase
TestAnIndex.settings = settings(stateful_step_count=80)


def test_every_holder_is_told_how_much_of_the_prompt_it_has() -> None:
    index = PrefixIndex(1000)
    one, two, three, *_ = POOL
    insert(index, one, 50, [1, 2, 3, 5])
    insert(index, two, 50, [1, 2])
    insert(index, three, 50, [7, 8])

    assert matches(index, [1, 2, 3, 4, 6]) == {one: 3, two: 2}


class CountedRuns(BlockRuns):
    """Runs that know how often one of them was looked for."""

    finds = 0

    def find(self, chain: bytes, at: int) -> tuple[int, int]:
        self.finds += 1
        return super().find(chain, at)


class CountedIndex(PrefixIndex):
    """An index that tells how many looks something takes."""

    def __init__(self, max_entries: int) -> None:
        super().__init__(max_entries)
        self._runs: CountedRuns = CountedRuns(max_entries)

    @property
    def runs(self) -> int:
        return sum(map(bool, self._runs.masks))

    def looks(self, action: Callable[[], object]) -> int:
        before = self._runs.finds
        action()
        return self._runs.finds - before


@pytest.mark.parametrize(
    ("held", "most_looks"),
    [([], 1), ([2048], 1), ([1], 2), ([1000], 2), ([2048, 1999, 1000, 5], 4)],
    ids=["nothing", "all", "the first block", "half", "different lengths"],
)
def test_a_long_prompt_is_matched_by_a_few_looks(held: list[int], most_looks: int) -> None:
    index = CountedIndex(20_000)
    for endpoint, length in zip(POOL, held, strict=False):
        insert(index, endpoint, 5000, range(length))

    assert matches(index, range(2048)) == dict(zip(POOL, held, strict=False))
    assert index.looks(lambda: matches(index, range(2048))) <= most_looks


def test_a_conversation_stays_one_run_however_often_it_goes_on() -> None:
    index = CountedIndex(20_000)
    one, two, *_ = POOL

    for length in range(1, 500):
        insert(index, one, 5000, range(length))
        insert(index, two, 5000, range(length - length % 2))

    assert index.looks(lambda: matches(index, range(500))) <= 4
    assert index.runs <= 3


def test_prompts_that_leave_one_another_at_every_block_are_found_by_a_few_looks() -> None:
    index = CountedIndex(1_000_000)
    one, two, *_ = POOL
    # Each prompt goes on for long, but the next has only one more block of it than of the last.
    prompts = [[*range(length), *range(length * 1000, length * 1000 + 50)] for length in range(300)]

    for prompt in prompts:
        assert index.looks(lambda: insert(index, one, 50_000, prompt)) <= 15  # noqa: B023 # at once
    for prompt in prompts:
        insert(index, two, 50_000, prompt)
        assert matches(index, prompt) == {one: len(prompt), two: len(prompt)}

    assert max(index.looks(lambda: matches(index, each)) for each in prompts) <= 30  # noqa: B023


@pytest.mark.parametrize(("length", "most_bytes"), [(1, 110), (4, 40), (12, 20), (2000, 9)])
def test_a_block_takes_few_bytes(length: int, most_bytes: int) -> None:
    rng = random.Random(5)
    prompts = [
        packed([rng.getrandbits(64) for _ in range(length)]) for _ in range(40_000 // length)
    ]
    tracemalloc.start()
    try:
        index = PrefixIndex(400_000)
        for number, prompt in enumerate(prompts):
            index.insert(POOL[number % len(POOL)], 31_250, prompt)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(index) == len(prompts) * length
    # The table that runs are found by has its size from the start.
    assert (taken - 4 * 131_072) / len(index) < most_bytes


def test_hashes_that_are_no_chain_do_no_harm() -> None:
    """Of a hash that is not cryptographic somebody may find equal ones."""
    index = PrefixIndex(1000)
    rng = random.Random(5)

    for _ in range(20_000):
        chain = [rng.randrange(6) for _ in range(rng.randrange(1, 15))]
        endpoint = rng.choice(POOL)
        insert(index, endpoint, 40, chain)
        assert all(0 < count <= len(chain) for count in matches(index, chain).values())
        assert 0 <= index.size == sum(index.sizes().values()) < 80 * len(POOL)
        assert len(index) <= 1000


def test_only_the_endpoints_asked_about_are_told() -> None:
    index = PrefixIndex(1000)
    for endpoint in POOL:
        insert(index, endpoint, 50, [1, 2])

    assert matches(index, [1, 2], endpoints=POOL[:2]) == dict.fromkeys(POOL[:2], 2)
    assert matches(index, [1, 2], endpoints=list(POOL[3:])) == dict.fromkeys(POOL[3:], 2)
    assert matches(index, [1, 2], endpoints=()) == {}


def test_several_prompts_are_summed_up() -> None:
    index = PrefixIndex(1000)
    one, two, *_ = POOL
    insert(index, one, 50, [1, 2])
    insert(index, two, 50, [7])

    assert matches(index, [1, 2, 3], [7, 8], [9, 10]) == {one: 2, two: 1}


def test_a_chain_longer_than_the_cache_loses_its_tail_first() -> None:
    index = PrefixIndex(1000)
    [one, *_] = POOL

    insert(index, one, 10, list(range(100)))
    insert(index, one, 10, list(range(200, 205)))

    assert matches(index, range(100))[one] >= 10
    assert index.sizes()[name_of(one)] < 20


def test_another_endpoint_keeps_what_it_has_while_one_is_over_its_capacity() -> None:
    index = PrefixIndex(1000)
    busy, idle, *_ = POOL
    insert(index, idle, 50, [1, 2, 3])

    for start in range(100, 400, 10):
        insert(index, busy, 20, [1, *range(start, start + 10)])

    assert matches(index, [1, 2, 3]) == {idle: 3, busy: 1}


def test_the_slot_of_a_removed_endpoint_brings_nothing_to_the_next_one() -> None:
    index = PrefixIndex(1000)
    pool = tuple(endpoint_of(str(number)) for number in range(200))
    for number, endpoint in enumerate(pool):
        insert(index, endpoint, 50, [1, 2, number + 10])
        assert matches(index, [1, 2], endpoints=pool) == {endpoint: 2}
        index.remove(endpoint.id)
        assert matches(index, [1, 2], endpoints=pool) == {}


@pytest.mark.parametrize(
    ("prompts", "blocks", "least"),
    [(300_000, 1, 900), (200_000, 4, 3600), (50_000, 12, 3600), (1000, 512, 3600)],
)
def test_ever_different_prompts_stay_within_the_bound(
    prompts: int, blocks: int, least: int
) -> None:
    """Pitfall 44; short prompts count as four blocks each."""
    index = CountedIndex(16_384)
    rng = random.Random(5)
    most = 0

    for number in range(prompts):
        endpoint = POOL[number % len(POOL)]
        insert(index, endpoint, 31_250, [rng.getrandbits(64) for _ in range(blocks)])
        most = max(most, len(index))

    assert 2 * least <= most <= 16_384
    assert len(index) >= least
    assert index.runs <= 16_384 // 4
    assert index.slots < 100
    assert all(index.sizes()[name_of(endpoint)] > 100 for endpoint in POOL)


@given(st.lists(st.tuples(endpoints, st.integers(0, 20), st.integers(1, 700))), st.data())
def test_the_bound_holds_whatever_the_lengths_of_prompts(
    inserts: list[tuple[Endpoint, int, int]], data: st.DataObject
) -> None:
    index = CountedIndex(512)

    for endpoint, prompt, length in inserts:
        blocks = range(prompt * 1000, prompt * 1000 + length)
        insert(index, endpoint, data.draw(st.integers(1, 400)), blocks)
        assert len(index) <= 512
        assert index.runs <= 512 // 4


def test_the_bound_holds_while_prompts_change_between_short_and_long() -> None:
    index = CountedIndex(16_384)
    rng = random.Random(5)

    for _ in range(20_000):
        length = rng.choice([1, 2, 5, 30, rng.randrange(1, 3000) if rng.random() < 0.1 else 3])
        shared = range(rng.randrange(length + 1))
        chain = [*shared, *(rng.getrandbits(64) for _ in range(length - len(shared)))]
        insert(index, rng.choice(POOL), rng.choice([7, 400, 31_250]), chain)
        assert len(index) <= 16_384
        assert index.runs <= 16_384 // 4


def test_slots_are_used_again_while_endpoints_come_and_go() -> None:
    index = PrefixIndex(100_000)
    stays = endpoint_of("stays")
    insert(index, stays, 31_250, list(range(5000)))

    for number in range(3000):
        endpoint = endpoint_of(str(number))
        insert(index, endpoint, 31_250, list(range(100)))
        index.remove(endpoint.id)

    assert index.slots < 100
    assert matches(index, list(range(5000)), endpoints=[stays]) == {stays: 5000}


@pytest.mark.parametrize("others", [[300_000], [12] * 20_000], ids=["one prompt", "many"])
def test_a_tiny_cache_beside_large_ones_does_not_make_masks_ever_wider(others: list[int]) -> None:
    index = PrefixIndex(1_000_000)
    large, tiny, *_ = POOL
    for number, length in enumerate(others):
        insert(index, large, 400_000, range(number * 1_000_000, number * 1_000_000 + length))

    for start in range(10**12, 10**12 + 300_000, 100):
        insert(index, tiny, 100, range(start, start + 100))

    assert index.slots < 1200
