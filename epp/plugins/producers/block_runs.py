"""Runs of blocks, each found by its first one: eight bytes for a block and about 80 for a run.

A chain is packed, eight bytes for each of its hashes, so that a run is compared with it at once.
A hash stands for all that comes before it: where two hashes are equal, so are those before them.
Hence runs need not know each other: what follows a run, or a part of one, is found by its own
first block.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from epp.plugins.producers.mask_slots import MaskSlots

BLOCK_BYTES = 8
SHORT_RUN = 4
"""A run of fewer blocks weighs as much as one of so many: it takes little less memory."""

_MAX_BUCKETS = 1 << 20


def packed(chain: Iterable[int]) -> bytes:
    """Hashes of blocks as a chain that can be compared with runs."""
    return array("Q", chain).tobytes()


class BlockRuns:
    """A hash table of runs in arrays; a run is known by its number, none has number 0.

    Lengths and positions are in bytes.
    """

    def __init__(self, max_weight: int) -> None:
        self.masks = [0]
        """By the numbers of runs; of those that are gone, 0."""
        self.blocks = 0
        self.weight = 0
        self._runs = [b""]
        self._next = array("I", [0])
        """The next run in the same bucket; of a number that is free, the next free one."""
        self._free = 0
        self._wiped_to = 0
        buckets = min(1 << (max_weight // SHORT_RUN).bit_length(), _MAX_BUCKETS)
        self._first = array("I", bytes(4 * buckets))
        self._bucket_mask = buckets - 1

    def find(self, chain: bytes, at: int) -> tuple[int, int]:
        """The run with the block of `chain` that begins at `at`, and how long they are equal."""
        block = chain[at : at + BLOCK_BYTES]
        # The hash of bytes is keyed: nobody can make prompts that fall into one bucket.
        number = self._first[hash(block) & self._bucket_mask]
        while number:
            run = self._runs[number]
            if chain.startswith(run, at):
                return number, len(run)
            if run.startswith(block):
                return number, _shared(run, chain, at)
            number = self._next[number]
        return 0, 0

    def length(self, number: int) -> int:
        """Bytes of a run."""
        return len(self._runs[number])

    def add(self, run: bytes, mask: int) -> int:
        """Keep a run; one with the same first block is not found as long as this one is there."""
        number = self._free
        if number:
            self._free = self._next[number]
            self._runs[number] = run
            self.masks[number] = mask
        else:
            number = len(self._runs)
            self._runs.append(run)
            self.masks.append(mask)
            self._next.append(0)
        bucket = hash(run[:BLOCK_BYTES]) & self._bucket_mask
        self._next[number] = self._first[bucket]
        self._first[bucket] = number
        self._weigh(len(run), 1)
        return number

    def remove(self, number: int) -> None:
        """Forget a run."""
        run, following = self._runs[number], self._next
        bucket = hash(run[:BLOCK_BYTES]) & self._bucket_mask
        before = self._first[bucket]
        if before == number:
            self._first[bucket] = following[number]
        else:
            while following[before] != number:
                before = following[before]
            following[before] = following[number]
        self._runs[number] = b""
        self.masks[number] = 0
        following[number] = self._free
        self._free = number
        self._weigh(len(run), -1)

    def cut(self, number: int, length: int) -> bytes:
        """Shorten a run to `length`; gives what followed."""
        run = self._runs[number]
        self._replace(number, run[:length])
        return run[length:]

    def join(self, number: int, following: int) -> None:
        """Make one run of two, of which the other follows the one."""
        run = self._runs[number] + self._runs[following]
        self.remove(following)
        self._replace(number, run)

    def wipe(self, steps: int, slots: MaskSlots) -> None:
        """Take slots that are not live out of the next masks; a run that nobody holds goes."""
        masks, live, at = self.masks, slots.live, self._wiped_to
        while steps > 0:
            end = min(at + steps, len(masks))
            steps -= end - at
            for number in range(at, end):
                mask = masks[number]
                kept = mask & live
                if kept:
                    if kept != mask:
                        masks[number] = kept
                elif mask:
                    self.remove(number)
            at = end
            if at == len(masks):
                at = 0
                slots.end_round()
        self._wiped_to = at

    def _replace(self, number: int, run: bytes) -> None:
        self._weigh(len(self._runs[number]), -1)
        self._runs[number] = run
        self._weigh(len(run), 1)

    def _weigh(self, length: int, sign: int) -> None:
        blocks = length // BLOCK_BYTES
        self.blocks += sign * blocks
        self.weight += sign * (blocks if blocks > SHORT_RUN else SHORT_RUN)


def _shared(run: bytes, chain: bytes, at: int) -> int:
    """How long a run and a chain from `at` on are equal; their first blocks are."""
    equal, differs = 1, min(len(run), len(chain) - at) // BLOCK_BYTES + 1
    while differs - equal > 1:
        middle = (equal + differs) // 2
        begin, end = (middle - 1) * BLOCK_BYTES, middle * BLOCK_BYTES
        if run[begin:end] == chain[at + begin : at + end]:
            equal = middle
        else:
            differs = middle
    return equal * BLOCK_BYTES
