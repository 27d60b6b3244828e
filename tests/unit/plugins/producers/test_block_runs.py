"""Runs of blocks in a hash table, against a plain list of them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from epp.plugins.producers.block_runs import BLOCK_BYTES, SHORT_RUN, BlockRuns, packed
from epp.plugins.producers.mask_slots import MaskSlots

ROOTS = st.integers(0, 40)


def chain_of(root: int, length: int) -> bytes:
    """Blocks that begin at some point of an endless prompt."""
    return packed(range(root, root + length))


class AListOfRuns(RuleBasedStateMachine):
    """Runs that begin with different blocks are found, and told apart from what is not there."""

    @initialize()
    def begin(self) -> None:
        # So few buckets that most hold several runs.
        self.runs = BlockRuns(16)
        self.slots = MaskSlots()
        self.bits = [self.slots.take(), self.slots.take()]
        self.model: dict[int, tuple[bytes, int]] = {}
        """By the first block: a run and which of the slots hold it."""

    def number_of(self, root: int) -> int:
        return self.runs.find(chain_of(root, 1), 0)[0]

    @rule(root=ROOTS, length=st.integers(1, 9), holders=st.integers(1, 3))
    def add(self, root: int, length: int, holders: int) -> None:
        if root not in self.model:
            run = chain_of(root, length)
            mask = sum(bit for nth, bit in enumerate(self.bits) if holders >> nth & 1)
            self.runs.add(run, mask)
            self.model[root] = run, holders

    @rule(root=ROOTS)
    def remove(self, root: int) -> None:
        if self.model.pop(root, None):
            self.runs.remove(self.number_of(root))

    @rule(root=ROOTS, length=st.integers(1, 9))
    def cut(self, root: int, length: int) -> None:
        run, holders = self.model.get(root, (b"", 0))
        if length * BLOCK_BYTES < len(run):
            rest = self.runs.cut(self.number_of(root), length * BLOCK_BYTES)
            assert rest == run[length * BLOCK_BYTES :]
            self.model[root] = run.removesuffix(rest), holders

    @rule(root=ROOTS)
    def join(self, root: int) -> None:
        run, holders = self.model.get(root, (b"", 0))
        following = root + len(run) // BLOCK_BYTES
        if run and following in self.model:
            self.runs.join(self.number_of(root), self.number_of(following))
            self.model[root] = run + self.model.pop(following)[0], holders

    @rule(nth=st.integers(0, 1))
    def retire(self, nth: int) -> None:
        self.slots.retire(self.bits[nth])
        self.runs.wipe(len(self.runs.masks) * 2, self.slots)
        self.bits[nth] = self.slots.take()
        left = {root: (run, of & ~(1 << nth)) for root, (run, of) in self.model.items()}
        self.model = {root: (run, of) for root, (run, of) in left.items() if of}

    @rule(root=ROOTS, length=st.integers(1, 12), wrong=st.integers(0, 12))
    def find(self, root: int, length: int, wrong: int) -> None:
        chain = chain_of(root, min(wrong, length)) + packed([99] * max(0, length - wrong))
        number, shared = self.runs.find(packed([77]) + chain, BLOCK_BYTES)
        run, holders = self.model.get(root, (b"", 0)) if wrong else (b"", 0)
        assert shared == min(len(run), min(wrong, length) * BLOCK_BYTES)
        mask = self.runs.masks[number]
        assert [bool(mask & bit) for bit in self.bits] == [bool(holders & 1), bool(holders & 2)]

    @invariant()
    def everything_is_counted(self) -> None:
        lengths = [len(run) // BLOCK_BYTES for run, _ in self.model.values()]
        assert self.runs.blocks == sum(lengths)
        assert self.runs.weight == sum(max(SHORT_RUN, length) for length in lengths)
        assert sum(map(bool, self.runs.masks)) == len(lengths)


TestAListOfRuns = AListOfRuns.TestCase


def test_a_run_hides_an_older_one_with_the_same_first_block_until_it_is_gone() -> None:
    runs = BlockRuns(64)
    runs.add(packed([1, 2]), 1)
    newer = runs.add(packed([1, 3]), 2)

    assert runs.find(packed([1, 2]), 0) == (newer, BLOCK_BYTES)
    runs.remove(newer)
    assert runs.find(packed([1, 2]), 0)[1] == 2 * BLOCK_BYTES


def test_numbers_are_used_again() -> None:
    runs = BlockRuns(64)

    for block in range(1000):
        runs.remove(runs.add(packed([block]), 1))

    assert len(runs.masks) <= 2
