"""KV-cache blocks: which prefixes are held, which are in use, and which are forgotten first."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass


def block_hashes(start: bytes, data: bytes, block_bytes: int, limit: int) -> list[bytes]:
    """Hashes of the first `limit` full blocks of `data`; each covers all before it and `start`."""
    hashes = []
    previous = start
    for begin in range(0, min(len(data) // block_bytes, limit) * block_bytes, block_bytes):
        digest = hashlib.blake2b(previous, digest_size=16)
        digest.update(data[begin : begin + block_bytes])
        previous = digest.digest()
        hashes.append(previous)
    return hashes


@dataclass(slots=True, eq=False)
class Lease:
    """Blocks that one running sequence holds."""

    hashes: Sequence[bytes]
    """Blocks that others may share."""
    reserved: int
    """Blocks of its own that it may come to fill."""
    used: int = 0
    """How many of those it has filled."""


class PrefixCache:
    """A fixed number of blocks; those no sequence holds stay until room is needed (LRU)."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._holders: dict[bytes, int] = {}
        self._idle: OrderedDict[bytes, None] = OrderedDict()
        self._reserved = 0
        self._used = 0

    @property
    def usage(self) -> float:
        """Share of the blocks that running sequences fill, 0 to 1."""
        return (len(self._holders) + self._used) / self._capacity

    def matching_blocks(self, hashes: Sequence[bytes]) -> int:
        """How many blocks are held, counted from the first up to the first that is not."""
        for index, digest in enumerate(hashes):
            if digest not in self._holders and digest not in self._idle:
                return index
        return len(hashes)

    def fits(self, hashes: Sequence[bytes], reserved: int) -> bool:
        """Whether `lease` would find the room. A sequence alone always fits, if cut short."""
        in_use = len(self._holders) + self._reserved
        if not in_use:
            return True
        added = sum(digest not in self._holders for digest in hashes)
        return in_use + added + reserved <= self._capacity

    def lease(self, hashes: Sequence[bytes], reserved: int) -> Lease:
        """Hold the blocks of a sequence that is about to run and `fits`."""
        for digest in hashes:
            self._idle.pop(digest, None)
            self._holders[digest] = self._holders.get(digest, 0) + 1
        lease = Lease(hashes, min(reserved, self._capacity - len(self._holders) - self._reserved))
        self._reserved += lease.reserved
        self._forget_beyond_capacity()
        return lease

    def fill(self, lease: Lease, blocks: int) -> None:
        """Say that `lease` fills so many blocks of its own by now."""
        blocks = min(blocks, lease.reserved)
        self._used += blocks - lease.used
        lease.used = blocks

    def release(self, lease: Lease, computed: Sequence[bytes]) -> None:
        """Give the blocks back; they and the ones in `computed` can be matched until forgotten."""
        self._reserved -= lease.reserved
        self._used -= lease.used
        # Tails first: a head is of use without its tail, but not the other way round.
        for digest in reversed(computed):
            if digest not in self._holders:
                self._keep_idle(digest)
        for digest in reversed(lease.hashes):
            self._holders[digest] -= 1
            if not self._holders[digest]:
                del self._holders[digest]
                self._keep_idle(digest)
        self._forget_beyond_capacity()

    def _keep_idle(self, digest: bytes) -> None:
        self._idle[digest] = None
        self._idle.move_to_end(digest)

    def _forget_beyond_capacity(self) -> None:
        in_use = len(self._holders) + self._reserved
        while self._idle and in_use + len(self._idle) > self._capacity:
            self._idle.popitem(last=False)
