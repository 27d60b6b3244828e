"""Which endpoints are believed to hold which blocks of prompts: runs of blocks → masks of slots.

Every endpoint has two slots, for its current and its previous generation of blocks. A generation
ends when it is as large as the endpoint's cache; the previous one is then forgotten. So an endpoint
is always believed to hold what an LRU of that capacity would, and never twice as much.

Blocks that the same endpoints hold are one run, however many they are: a run is cut where a prompt
ends or leaves it, and joined to the one before it as soon as their holders are the same. A block
stands for all that comes before it, so who holds a block holds those before it, and none of them in
an older generation.

Forgetting a slot is one operation; its bits are wiped out of the masks by a sweep that
goes on with every insert, and only then is the slot given to another endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from epp.framework.endpoint import Endpoint, EndpointId
from epp.plugins.producers.block_runs import BLOCK_BYTES, BlockRuns
from epp.plugins.producers.mask_slots import MaskSlots
from epp.plugins.producers.removed_endpoints import RemovedEndpoints
from epp.plugins.producers.tallies import selected, tally

_LEAST_SWEPT = 4
_ROUNDS_PER_BOUND = 8
_CHAINS_PER_BOUND = 8
"""No chain is learnt further than makes so many of them fill the index."""
_MANY_SLOTS = 256
_MANY_RUNS = 8


class _Holder:
    """What one endpoint is believed to hold; slots as masks with their one bit."""

    __slots__ = ("capacity", "current", "current_blocks", "pod", "previous", "previous_blocks")

    def __init__(self, pod: str, capacity: int) -> None:
        self.pod = pod
        self.capacity = capacity
        self.current = 0
        self.current_blocks = 0
        self.previous = 0
        self.previous_blocks = 0


class PrefixIndex:
    """Learns where prompts were sent, tells who has most of another one.

    Has at most `max_entries` different blocks, where a short run counts as `SHORT_RUN` of them.
    From half of that on the previous generation of every endpoint is forgotten, however small: with
    eight rounds of the sweep while so many are inserted, two rounds then end before the other half
    is full.
    """

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._longest = max(1, max_entries // _CHAINS_PER_BOUND)
        self._runs = BlockRuns(max_entries)
        self._holders: dict[EndpointId, _Holder] = {}
        self._removed = RemovedEndpoints()
        self._slots = MaskSlots()
        self._steps_to_relief = 0
        self._viewed: tuple[Sequence[Endpoint] | None, int] = (None, 0)
        self._view: list[Endpoint | None] = []
        self.size = 0
        """Blocks over all endpoints."""

    def __len__(self) -> int:
        return self._runs.blocks

    @property
    def slots(self) -> int:
        """Width of the masks."""
        return self._slots.width

    def sizes(self) -> dict[str, int]:
        """How many blocks each endpoint is believed to hold, by namespace and name."""
        return {
            holder.pod: holder.current_blocks + holder.previous_blocks
            for holder in self._holders.values()
        }

    def match(self, chains: Iterable[bytes], endpoints: Sequence[Endpoint]) -> dict[Endpoint, int]:
        """How many of the blocks each of `endpoints` holds, those that hold none left out."""
        groups = tally(held for chain in chains for held in self._held(chain))
        if not groups:
            return {}
        view = self._view_of(endpoints)
        counts: dict[Endpoint, int] = {}
        for bits, count in groups:
            for endpoint in selected(view, bits):
                if endpoint is not None:
                    counts[endpoint] = counts.get(endpoint, 0) + count
        return counts

    def insert(self, endpoint: Endpoint, capacity: int, chain: bytes) -> None:
        """`endpoint` computes these blocks. The capacity of its first insert stays in force."""
        if not chain or endpoint.id in self._removed:
            return
        holder = self._holders.get(endpoint.id)
        if holder is None:
            holder = _Holder(f"{endpoint.namespace}/{endpoint.name}", capacity)
            self._holders[endpoint.id] = holder
            holder.current = self._slots.take()
        before = self._runs.weight
        if len(chain) > holder.capacity * BLOCK_BYTES:
            # Of such a chain an LRU keeps the head, and nothing else.
            self._turn(holder)
        self._insert(holder, chain[: min(holder.capacity, self._longest) * BLOCK_BYTES])
        self._sweep(max(0, self._runs.weight - before))
        if self._runs.weight * 2 >= self._max_entries and self._steps_to_relief <= 0:
            self._relieve()

    def admit(self, endpoint: EndpointId) -> None:
        """The endpoint is there."""
        self._removed.discard(endpoint)

    def remove(self, endpoint: EndpointId) -> None:
        """Forget the endpoint at once, and what is still said of it later."""
        self._removed.add(endpoint)
        holder = self._holders.pop(endpoint, None)
        if holder is not None:
            self.size -= holder.current_blocks + holder.previous_blocks
            self._slots.retire(holder.current)
            self._slots.retire(holder.previous)

    def _held(self, chain: bytes) -> list[tuple[int, int]]:
        """Pairs `(mask, count)`: who holds how many blocks in a row."""
        find, masks, live = self._runs.find, self._runs.masks, self._slots.live
        held = []
        at = 0
        while at < len(chain):
            run, shared = find(chain, at)
            mask = masks[run] & live
            if not mask:
                break
            held.append((mask, shared // BLOCK_BYTES))
            at += shared
        return held

    def _insert(self, holder: _Holder, chain: bytes) -> None:
        """Learn a chain that is no longer than the cache, so that at most one generation ends."""
        path, known = self._path(chain)
        if known < len(chain):
            path[self._runs.add(chain[known:], 0)] = len(chain) - known
        # From the tail to the head: where a generation ends within a chain, it is the tail that is
        # forgotten first (decision 34).
        for run, shared in reversed(path.items()):
            if self._runs.masks[run] & holder.current:
                return
            self._learn(holder, run, shared)

    def _path(self, chain: bytes) -> tuple[dict[int, int], int]:
        """The runs along a chain with how much of each is part of it, and how far they go."""
        runs, masks, live = self._runs, self._runs.masks, self._slots.live
        path: dict[int, int] = {}
        at = above = whole = 0
        while at < len(chain):
            run, shared = runs.find(chain, at)
            # None is met twice, unless somebody made hashes that are equal.
            if not run or run in path:
                break
            at += shared
            if above and not (masks[above] ^ masks[run]) & live:
                # Others may go on where this chain leaves a run; not at every block of it, though.
                if len(path) > _MANY_RUNS:
                    self._cut(above, whole)
                if whole == runs.length(above):
                    runs.join(above, run)
                    run, shared = above, whole + shared
            above, whole = run, shared
            path[run] = shared
        return path, at

    def _learn(self, holder: _Holder, run: int, shared: int) -> None:
        """The first `shared` bytes of a run are held."""
        runs = self._runs
        self._cut(run, shared)
        room = (holder.capacity - holder.current_blocks) * BLOCK_BYTES
        if shared > room:
            tail = runs.cut(run, shared - room)
            self._hold(holder, runs.add(tail, runs.masks[run] & self._slots.live))
        self._hold(holder, run)

    def _cut(self, run: int, shared: int) -> None:
        """What follows in a run is one of its own from then on, if anybody holds it."""
        if shared == self._runs.length(run):
            return
        rest = self._runs.cut(run, shared)
        mask = self._runs.masks[run] & self._slots.live
        if mask:
            self._runs.add(rest, mask)

    def _hold(self, holder: _Holder, run: int) -> None:
        masks = self._runs.masks
        mask = masks[run] & self._slots.live
        blocks = self._runs.length(run) // BLOCK_BYTES
        if mask & holder.previous:
            mask ^= holder.previous
            holder.previous_blocks -= blocks
        else:
            self.size += blocks
        # One object for all that nobody else holds.
        masks[run] = mask | holder.current if mask else holder.current
        holder.current_blocks += blocks
        if holder.current_blocks >= holder.capacity:
            self._turn(holder)

    def _turn(self, holder: _Holder) -> None:
        """Begin another generation of an endpoint."""
        self.size -= holder.previous_blocks
        self._slots.retire(holder.previous)
        holder.previous, holder.previous_blocks = holder.current, holder.current_blocks
        holder.current, holder.current_blocks = self._slots.take(), 0

    def _relieve(self) -> None:
        self._steps_to_relief = len(self._runs.masks)
        for holder in self._holders.values():
            if holder.current_blocks or holder.previous_blocks:
                self._turn(holder)

    def _view_of(self, endpoints: Sequence[Endpoint]) -> list[Endpoint | None]:
        """Those of `endpoints` that hold anything, by their slots."""
        viewed, changes = self._viewed
        if endpoints is viewed and changes == self._slots.changes:
            return self._view
        view: list[Endpoint | None] = [None] * self._slots.width
        for endpoint in endpoints:
            holder = self._holders.get(endpoint.id)
            if holder is not None:
                view[holder.current.bit_length() - 1] = endpoint
                if holder.previous:
                    view[holder.previous.bit_length() - 1] = endpoint
        # The whole pool is one tuple until it changes; another list might change in place.
        if isinstance(endpoints, tuple):
            self._viewed, self._view = (endpoints, self._slots.changes), view
        return view

    def _sweep(self, inserted: int) -> None:
        """Wipe slots that are not live out of some masks, the more the more was inserted."""
        runs, retired = len(self._runs.masks), self._slots.retired
        steps = _LEAST_SWEPT + _ROUNDS_PER_BOUND * inserted * runs // self._max_entries
        # Many retired slots make wide masks: the more there are, the faster they are freed.
        steps *= 1 + retired // _MANY_SLOTS
        self._steps_to_relief -= steps
        if retired:
            self._runs.wipe(steps, self._slots)
