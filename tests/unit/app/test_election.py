from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from epp.app.election import Election
from epp.kubernetes.leader_election import LeaderElector
from epp.kubernetes.lease import Lease, LeaseRecord
from epp.support.tasks import TaskOwner
from tests.fakes.eventually import eventually


class FreeLease:
    """A lease that nobody else wants."""

    def __init__(self) -> None:
        self.lease: Lease | None = None

    async def read(self) -> Lease | None:
        return self.lease

    async def write(self, record: LeaseRecord, *, over: Lease | None) -> None:
        self.lease = Lease(record=record)


class Candidate:
    """An election, and what came of it."""

    def __init__(self, tasks: TaskOwner) -> None:
        self.store = FreeLease()
        self.synced = asyncio.Event()
        self.losses = 0
        self.clock = 0.0
        elector = LeaderElector(self.store, on_change=lambda _: None, now=lambda: self.clock)
        self.election = Election(elector, wait_synced=self._synced, on_lost=self._lost, tasks=tasks)

    async def _synced(self) -> None:
        await self.synced.wait()

    def _lost(self) -> None:
        self.losses += 1


@pytest.fixture
async def candidate() -> AsyncIterator[Candidate]:
    tasks = TaskOwner()
    yield Candidate(tasks)
    await tasks.aclose()


async def test_it_does_not_stand_before_it_could_serve(candidate: Candidate) -> None:
    await asyncio.sleep(0)

    assert candidate.store.lease is None

    candidate.synced.set()
    await eventually(lambda: candidate.election.leads)


async def test_ending_it_frees_the_lease_and_is_no_loss(candidate: Candidate) -> None:
    candidate.synced.set()
    await eventually(lambda: candidate.election.leads)

    await candidate.election.end()

    assert candidate.store.lease is not None
    assert candidate.store.lease.record.holder == ""
    assert candidate.losses == 0


async def test_ending_it_before_it_stood_leaves_the_lease_alone(candidate: Candidate) -> None:
    await candidate.election.end()

    assert candidate.store.lease is None
    assert candidate.losses == 0
