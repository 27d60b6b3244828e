"""Places a batch of requests jointly, so that each shared prefix is computed once (§12.8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from epp.framework.endpoint import Endpoint
from epp.plugins.producers.tallies import selected, tally

Blocks: TypeAlias = Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRules:
    """How requests may be put together."""

    max_per_replica: int | None = None
    """Most requests of one group on a replica, while others have room; None: no limit."""
    min_colocate_blocks: int = 0
    """Leading blocks that make requests which are not identical belong together; 0: never."""
    by_tokens: bool = False
    """Balance blocks to compute rather than requests."""


@dataclass(slots=True, eq=False)
class BurstRequest:
    """A request that waits for its batch."""

    chains: Sequence[Blocks]
    candidates: Sequence[Endpoint]
    target: Endpoint | None = None
    """Where it was placed; None: it shares nothing with the others."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Requests with the same prompt, or one that shares a prefix with others."""

    blocks: Blocks
    members: Sequence[BurstRequest]


def place(batch: Sequence[BurstRequest], rules: PlacementRules) -> None:
    """Set the targets: larger groups' prompts first, single requests after all groups."""
    groups: dict[tuple[tuple[int, ...], ...], list[BurstRequest]] = {}
    for request in batch:
        if any(request.chains) and request.candidates:
            groups.setdefault(tuple(map(tuple, request.chains)), []).append(request)
    units = [_Unit(tuple(chain(*key)), members) for key, members in groups.items()]
    placed = _worth_placing(units, rules.min_colocate_blocks)
    if not placed:
        return
    weights = [len(unit.blocks) if rules.by_tokens else len(unit.members) for unit in placed]
    replicas = _Replicas(units[0].members[0].candidates, sum(weights))
    for unit in placed:
        _place(unit, replicas, rules)


def _worth_placing(units: Sequence[_Unit], min_shared: int) -> list[_Unit]:
    beginnings: Counter[tuple[int, ...]] = Counter()
    if min_shared:
        for unit in units:
            if len(unit.blocks) >= min_shared:
                beginnings[tuple(unit.blocks[:min_shared])] += len(unit.members)
    together = [unit for unit in units if len(unit.members) > 1]
    single = [
        unit
        for unit in units
        if len(unit.members) == 1 and beginnings[tuple(unit.blocks[:min_shared])] > 1
    ]

    def longest_first(unit: _Unit) -> int:
        return -len(unit.blocks)

    return sorted(together, key=longest_first) + sorted(single, key=longest_first)


class _Replicas:
    """Endpoints with what this batch has put on them, by index."""

    def __init__(self, endpoints: Sequence[Endpoint], total: int) -> None:
        by_preference = sorted(
            endpoints, key=lambda each: (each.metrics.running_requests_size, each.name)
        )
        self.endpoints = by_preference
        self.fair_share = -(-total // len(by_preference))
        self.loads = [0] * len(by_preference)
        self._holders: dict[int, int] = {}
        """Bitmask of the replicas that this batch has given a block."""

    def add(self, blocks: Blocks, replicas: Iterable[int]) -> None:
        """Let these replicas hold these blocks."""
        mask = sum(1 << replica for replica in replicas)
        holders = self._holders
        for block in blocks:
            holders[block] = holders.get(block, 0) | mask

    def shared(self, blocks: Blocks) -> dict[int, int]:
        """How many leading blocks each replica was given before."""
        masks = Counter(iter(map(self._holders.get, blocks).__next__, None))
        indices = list(range(len(self.endpoints)))
        return {
            replica: count
            for bits, count in tally((mask or 0, count) for mask, count in masks.items())
            for replica in selected(indices, bits)
        }

    def least_loaded(self, on: Mapping[int, int], full: set[int]) -> int:
        """The first in order of preference among the least loaded ones that are not full.

        Where all are full of one group, `on` which so many of it are, it is spread evenly.
        """
        loads = self.loads
        if not full:
            return loads.index(min(loads))
        if len(full) == len(loads):
            return min(range(len(loads)), key=lambda replica: (on[replica], loads[replica]))
        return min((r for r in range(len(loads)) if r not in full), key=loads.__getitem__)

    def longest_shared(self, shared: Mapping[int, int], least: int) -> int | None:
        """The one that shares most, at least `least`, and has not had its fair share."""
        eligible = [
            (-count, self.loads[replica], replica)
            for replica, count in shared.items()
            if count >= least and self.loads[replica] < self.fair_share
        ]
        return min(eligible)[2] if eligible else None


def _place(unit: _Unit, replicas: _Replicas, rules: PlacementRules) -> None:
    least = rules.min_colocate_blocks
    shared = replicas.shared(unit.blocks) if least or rules.by_tokens else {}
    target = replicas.longest_shared(shared, least) if least else None
    limit = rules.max_per_replica
    on: Counter[int] = Counter()
    full: set[int] = set()
    rest = list(unit.members)
    while rest:
        if target is None:
            target = replicas.least_loaded(on, full)
        # Where every replica is full, the rest go one by one.
        room = len(rest) if limit is None else max(1, limit - on[target])
        for request in rest[:room]:
            request.target = replicas.endpoints[target]
        if not rules.by_tokens:
            replicas.loads[target] += min(room, len(rest))
        elif not on[target]:
            replicas.loads[target] += max(0, len(unit.blocks) - shared.get(target, 0))
        on[target] += min(room, len(rest))
        if limit is not None and on[target] >= limit:
            full.add(target)
        rest = rest[room:]
        target = None
    replicas.add(unit.blocks, on)
