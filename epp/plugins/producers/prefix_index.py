"""Which endpoints are believed to hold which blocks of prompts: block hash → bitmask of slots.

Every endpoint has two slots, for its current and its previous generation of blocks. A generation
ends when it is as large as the endpoint's cache; the previous one is then forgotten. So an endpoint
is always believed to hold what an LRU of that capacity would, and never twice as much.

A block stands for all that comes before it, and chains are learnt from their tails to their heads:
who holds a block holds those before it, and none of them in an older generation. So a chain that is
known to its end is learnt by one look, and it is matched by a few, wherever masks differ.

Forgetting a slot is one operation on `_live`; its bits are wiped out of the masks by a sweep that
goes on with every insert, and only then is the slot given to another endpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from epp.framework.endpoint import Endpoint, EndpointId
from epp.plugins.producers.removed_endpoints import RemovedEndpoints
from epp.plugins.producers.tallies import selected, tally

_SWEPT_PER_BLOCK = 4
_PIECES = 256
_MANY_SLOTS = 256


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

    Has at most `max_entries` different blocks. From half of that on the previous generation of
    every endpoint is forgotten, however small: with four entries swept per insert, two rounds of
    the sweep then end before the other half is full.
    """

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._masks: dict[int, int] = {}
        self._order: list[int] = []
        """Keys of `_masks`, each once: what the sweep walks through."""
        self._holders: dict[EndpointId, _Holder] = {}
        self._removed = RemovedEndpoints()
        self._slots = 0
        self._live = 0
        self._free: list[int] = []
        self._retired: deque[tuple[int, int]] = deque()
        """Slots that are not live, and the round of the sweep after which they are free."""
        self._swept_to = 0
        self._round = 0
        self._steps_to_relief = 0
        self._viewed: Sequence[Endpoint] | None = None
        self._view: list[Endpoint | None] = []
        self.size = 0
        """Blocks over all endpoints."""

    def __len__(self) -> int:
        return len(self._masks)

    @property
    def slots(self) -> int:
        """Width of the masks."""
        return self._slots

    def sizes(self) -> dict[str, int]:
        """How many blocks each endpoint is believed to hold, by namespace and name."""
        return {
            holder.pod: holder.current_blocks + holder.previous_blocks
            for holder in self._holders.values()
        }

    def match(
        self, chains: Iterable[Sequence[int]], endpoints: Sequence[Endpoint]
    ) -> dict[Endpoint, int]:
        """How many of the blocks each of `endpoints` holds, those that hold none left out."""
        groups = tally(run for chain in chains for run in self._runs(chain))
        if not groups:
            return {}
        view = self._view_of(endpoints)
        counts: dict[Endpoint, int] = {}
        for bits, count in groups:
            for endpoint in selected(view, bits):
                if endpoint is not None:
                    counts[endpoint] = counts.get(endpoint, 0) + count
        return counts

    def insert(self, endpoint: Endpoint, capacity: int, chain: Sequence[int]) -> None:
        """`endpoint` computes these blocks. The capacity of its first insert stays in force."""
        if not chain or endpoint.id in self._removed:
            return
        holder = self._holders.get(endpoint.id)
        if holder is None:
            holder = _Holder(f"{endpoint.namespace}/{endpoint.name}", capacity)
            self._holders[endpoint.id] = holder
            holder.current = self._new_slot()
        # From the tail to the head: where a generation ends within a chain, it is the tail that is
        # forgotten first (decision 34).
        step = max(1, self._max_entries // _PIECES)
        for end in range(len(chain), 0, -step):
            piece = chain[max(0, end - step) : end]
            learnt = self._insert(holder, piece)
            # Many retired slots make wide masks: the more there are, the faster they are freed.
            pace = _SWEPT_PER_BLOCK * (1 + len(self._retired) // _MANY_SLOTS)
            self._sweep(pace * learnt)
            if len(self._masks) * 2 >= self._max_entries and self._steps_to_relief <= 0:
                self._relieve()
            if learnt < len(piece):
                return

    def admit(self, endpoint: EndpointId) -> None:
        """The endpoint is there."""
        self._removed.discard(endpoint)

    def remove(self, endpoint: EndpointId) -> None:
        """Forget the endpoint at once, and what is still said of it later."""
        self._removed.add(endpoint)
        holder = self._holders.pop(endpoint, None)
        if holder is not None:
            self.size -= holder.current_blocks + holder.previous_blocks
            self._retire(holder.current)
            self._retire(holder.previous)

    def _runs(self, chain: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs `(mask, count)`: who holds how many blocks in a row."""
        if not chain:
            return []
        get, live, end = self._masks.get, self._live, len(chain) - 1
        of_last = get(chain[end], 0) & live
        runs = [(of_last, 1)]
        # Each from a block with a mask up to another one with its mask, which is not part of it.
        spans = [(0, get(chain[0], 0) & live, end, of_last)]
        while spans:
            start, mask, end, of_end = spans.pop()
            if mask == of_end or end - start == 1:
                runs.append((mask, end - start))
            elif end > start:
                middle = (start + end) // 2
                of_middle = get(chain[middle], 0) & live
                spans += (start, mask, middle, of_middle), (middle, of_middle, end, of_end)
        return runs

    def _insert(self, holder: _Holder, piece: Sequence[int]) -> int:
        """Learn blocks up to one that is known to be held; gives how many."""
        masks, get, add = self._masks, self._masks.get, self._order.append
        current, previous = holder.current, holder.previous
        others = self._live & ~(current | previous)
        for learnt, block in enumerate(reversed(piece)):
            mask = get(block)
            if mask is None:
                masks[block] = current
                add(block)
                self.size += 1
            elif mask & current:
                return learnt
            else:
                masks[block] = mask & others | current
                if mask & previous:
                    holder.previous_blocks -= 1
                else:
                    self.size += 1
            holder.current_blocks += 1
            if holder.current_blocks >= holder.capacity:
                self._turn(holder)
                current, previous = holder.current, holder.previous
                others = self._live & ~(current | previous)
        return len(piece)

    def _turn(self, holder: _Holder) -> None:
        """Begin another generation of an endpoint."""
        self.size -= holder.previous_blocks
        self._retire(holder.previous)
        holder.previous, holder.previous_blocks = holder.current, holder.current_blocks
        holder.current, holder.current_blocks = self._new_slot(), 0

    def _relieve(self) -> None:
        self._steps_to_relief = len(self._order)
        for holder in self._holders.values():
            if holder.current_blocks or holder.previous_blocks:
                self._turn(holder)

    def _new_slot(self) -> int:
        if self._free:
            slot = heappop(self._free)
        else:
            slot = self._slots
            self._slots += 1
        self._viewed = None
        self._live |= 1 << slot
        return 1 << slot

    def _retire(self, bit: int) -> None:
        if bit:
            self._viewed = None
            self._live ^= bit
            self._retired.append((bit.bit_length() - 1, self._round + 2))

    def _view_of(self, endpoints: Sequence[Endpoint]) -> list[Endpoint | None]:
        """Those of `endpoints` that hold anything, by their slots."""
        if endpoints is self._viewed:
            return self._view
        view: list[Endpoint | None] = [None] * self._slots
        for endpoint in endpoints:
            holder = self._holders.get(endpoint.id)
            if holder is not None:
                view[holder.current.bit_length() - 1] = endpoint
                if holder.previous:
                    view[holder.previous.bit_length() - 1] = endpoint
        # The whole pool is one tuple until it changes; another list might change in place.
        if isinstance(endpoints, tuple):
            self._viewed, self._view = endpoints, view
        return view

    def _sweep(self, steps: int) -> None:
        """Wipe slots that are not live out of the next `steps` masks."""
        masks, order, live, at = self._masks, self._order, self._live, self._swept_to
        self._steps_to_relief -= steps
        while steps > 0 and self._retired:
            if at >= len(order):
                at = 0
                self._end_round()
                continue
            steps -= 1
            block = order[at]
            mask = masks[block]
            kept = mask & live
            if kept:
                if kept != mask:
                    masks[block] = kept
                at += 1
            else:
                del masks[block]
                last = order.pop()
                if at < len(order):
                    order[at] = last
        self._swept_to = at

    def _end_round(self) -> None:
        self._round += 1
        while self._retired and self._retired[0][1] <= self._round:
            heappush(self._free, self._retired.popleft()[0])
