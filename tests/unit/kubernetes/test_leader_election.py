from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from epp.kubernetes.leader_election import (
    ElectionTiming,
    LeaderElector,
    lease_name,
    replica_identity,
    timestamp,
)
from epp.kubernetes.lease import Lease, LeaseError, LeaseRecord
from tests.fakes.virtual_time import in_virtual_time

TIMING = ElectionTiming()


class LeaseServer:
    """Keeps one Lease as an API server does, and fails when it is told to."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.error = ""
        self.is_frozen = False
        self.loses_answers = False
        self.writes = 0

    @property
    def record(self) -> LeaseRecord:
        assert self.lease is not None
        return self.lease.record

    async def read(self) -> Lease | None:
        await self._turn()
        return self.lease

    async def write(self, record: LeaseRecord, *, over: Lease | None) -> None:
        await self._turn()
        if over is not self.lease:
            raise LeaseError("409 Conflict")
        self.lease = Lease(record=record)
        self.writes += 1
        if self.loses_answers:
            await asyncio.Event().wait()

    def put(self, record: LeaseRecord) -> None:
        self.lease = Lease(record=record)

    async def _turn(self) -> None:
        await asyncio.sleep(0.01)
        if self.is_frozen:
            await asyncio.Event().wait()
        if self.error:
            raise LeaseError(self.error)


class Connection:
    """One candidate's way to the server."""

    def __init__(self, server: LeaseServer) -> None:
        self._server = server
        self.is_cut = False

    async def read(self) -> Lease | None:
        self._check()
        return await self._server.read()

    async def write(self, record: LeaseRecord, *, over: Lease | None) -> None:
        self._check()
        await self._server.write(record, over=over)

    def _check(self) -> None:
        if self.is_cut:
            raise LeaseError("connection refused")


class Candidate:
    """An elector with its task, and what it has told."""

    def __init__(
        self, server: LeaseServer, identity: str, *, clock_skew: timedelta = timedelta()
    ) -> None:
        loop = asyncio.get_running_loop()
        start = datetime(2026, 1, 1, tzinfo=UTC) + clock_skew
        self.told: list[tuple[float, bool]] = []
        self._connection = Connection(server)
        self.elector = LeaderElector(
            self._connection,
            on_change=lambda leads: self.told.append((loop.time(), leads)),
            identity=identity,
            timing=TIMING,
            rng=random.Random(identity),
            now=loop.time,
            calendar=lambda: start + timedelta(seconds=loop.time()),
        )
        self.task = asyncio.create_task(self.elector.run())

    @property
    def leads(self) -> bool:
        return self.elector.is_leader

    async def shut_down(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})

    def die(self) -> None:
        """End without a word, as a killed process does."""
        self._connection.is_cut = True
        self.task.cancel()


def scenario(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run to the end; whoever is left is cancelled with the loop."""
    in_virtual_time(coroutine)


def test_the_first_candidate_creates_the_lease_and_leads() -> None:
    async def run() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "a")
        await asyncio.sleep(1)

        assert candidate.leads
        assert [leads for _, leads in candidate.told] == [True]
        assert server.record == LeaseRecord(
            holder="a",
            duration_seconds=15,
            acquire_time="2026-01-01T00:00:00.010000Z",
            renew_time="2026-01-01T00:00:00.010000Z",
            transitions=1,
        )

    scenario(run())


def test_a_leader_renews_and_keeps_the_time_it_began() -> None:
    async def run() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "a")
        await asyncio.sleep(1)
        first = server.record
        await asyncio.sleep(300)

        assert candidate.leads
        assert server.record.renew_time > first.renew_time
        assert replace(server.record, renew_time="") == replace(first, renew_time="")

    scenario(run())


def test_of_two_candidates_that_race_one_leads() -> None:
    async def run() -> None:
        server = LeaseServer()
        candidates = [Candidate(server, "a"), Candidate(server, "b")]
        for _ in range(200):
            await asyncio.sleep(1)
            assert sum(candidate.leads for candidate in candidates) == 1

        assert [bool(candidate.told) for candidate in candidates].count(True) == 1

    scenario(run())


def test_at_a_frozen_server_the_leader_stops_claiming_within_the_renew_deadline() -> None:
    async def run() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "a")
        await asyncio.sleep(61)
        frozen_at = asyncio.get_running_loop().time()
        server.is_frozen = True
        await candidate.task

        assert not candidate.leads
        lost_at, leads = candidate.told[-1]
        assert not leads
        assert lost_at - frozen_at <= TIMING.renew_deadline

    scenario(run())


def test_a_leader_whose_own_process_was_frozen_claims_nothing_before_it_has_noticed() -> None:
    async def run() -> None:
        moment = 0.0
        elector = LeaderElector(LeaseServer(), on_change=lambda _: None, now=lambda: moment)
        task = asyncio.create_task(elector.run())
        await asyncio.sleep(1)
        assert elector.is_leader

        moment = 10.0

        assert not elector.is_leader
        task.cancel()

    scenario(run())


def test_a_short_outage_costs_no_leadership() -> None:
    async def run() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "a")
        await asyncio.sleep(61)
        server.error = "503 Service Unavailable"
        await asyncio.sleep(TIMING.renew_deadline - 2 * TIMING.retry)
        server.error = ""
        await asyncio.sleep(60)

        assert candidate.leads
        assert len(candidate.told) == 1

    scenario(run())


def test_a_renewal_whose_answer_is_lost_is_made_again() -> None:
    async def run() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "a")
        await asyncio.sleep(61)
        server.loses_answers = True
        await asyncio.sleep(3)
        server.loses_answers = False
        await asyncio.sleep(60)

        assert candidate.leads
        assert len(candidate.told) == 1

    scenario(run())


def test_a_dead_leaders_lease_is_taken_over_when_it_has_expired() -> None:
    async def run() -> None:
        server = LeaseServer()
        first, second = Candidate(server, "a"), Candidate(server, "b")
        await asyncio.sleep(61)
        leader, follower = (first, second) if first.leads else (second, first)
        transitions = server.record.transitions
        loop = asyncio.get_running_loop()
        died_at = loop.time()
        leader.die()
        await asyncio.sleep(60)

        assert follower.leads
        ((took_over_at, _),) = follower.told
        assert took_over_at - died_at >= TIMING.lease - TIMING.retry
        assert took_over_at - died_at <= TIMING.lease + 2 * TIMING.retry * 2.2
        assert server.record.transitions == transitions + 1

    scenario(run())


def test_a_released_lease_is_taken_over_without_waiting_for_its_end() -> None:
    async def run() -> None:
        server = LeaseServer()
        leader = Candidate(server, "a")
        await asyncio.sleep(1)
        follower = Candidate(server, "b")
        await asyncio.sleep(61)
        await leader.shut_down()
        assert (server.record.holder, server.record.duration_seconds) == ("", 1)
        await asyncio.sleep(TIMING.retry * 2.2 + 0.1)

        assert follower.leads
        assert not leader.leads
        assert [leads for _, leads in leader.told] == [True, False]

    scenario(run())


def test_a_lease_whose_creation_was_never_confirmed_is_released_too() -> None:
    async def run() -> None:
        server = LeaseServer()
        server.loses_answers = True
        candidate = Candidate(server, "a")
        await asyncio.sleep(1)
        server.loses_answers = False
        await candidate.shut_down()

        assert server.record.holder == ""
        assert candidate.told == []

    scenario(run())


def test_a_follower_that_ends_leaves_the_lease_alone() -> None:
    async def run() -> None:
        server = LeaseServer()
        leader = Candidate(server, "a")
        await asyncio.sleep(1)
        follower = Candidate(server, "b")
        await asyncio.sleep(10)
        await follower.shut_down()

        assert leader.leads
        assert server.record.holder == "a"
        assert follower.told == []

    scenario(run())


def test_a_release_at_a_frozen_server_does_not_hold_up_the_end() -> None:
    async def run() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "a")
        await asyncio.sleep(1)
        server.is_frozen = True
        started = asyncio.get_running_loop().time()
        await candidate.shut_down()

        assert asyncio.get_running_loop().time() - started <= TIMING.attempt

    scenario(run())


def test_a_leader_that_sees_another_holder_is_none_at_once() -> None:
    async def run() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "a")
        await asyncio.sleep(61)
        server.put(LeaseRecord(holder="b", duration_seconds=15, transitions=7))
        await asyncio.sleep(TIMING.retry + 0.1)

        assert candidate.task.done()
        assert not candidate.leads
        assert server.record.holder == "b"

    scenario(run())


def test_clocks_hours_apart_make_no_difference() -> None:
    async def run() -> None:
        server = LeaseServer()
        behind = Candidate(server, "a", clock_skew=timedelta(hours=-9))
        ahead = Candidate(server, "b", clock_skew=timedelta(hours=9))
        for _ in range(200):
            await asyncio.sleep(1)
            assert behind.leads + ahead.leads == 1

    scenario(run())


def test_a_lease_left_behind_is_waited_for_whatever_its_times_say() -> None:
    async def run() -> None:
        server = LeaseServer()
        server.put(
            LeaseRecord(holder="gone", duration_seconds=15, renew_time="1999-01-01T00:00:00Z")
        )
        candidate = Candidate(server, "a")
        await asyncio.sleep(14.9)
        assert not candidate.leads
        await asyncio.sleep(2 * TIMING.retry * 2.2)

        assert candidate.leads

    scenario(run())


def test_candidates_do_not_knock_in_step() -> None:
    async def run() -> None:
        server = LeaseServer()
        server.error = "403 Forbidden"
        knocks: dict[str, list[float]] = {"a": [], "b": []}

        class Door(LeaseServer):
            def __init__(self, name: str) -> None:
                super().__init__()
                self._name = name

            async def read(self) -> Lease | None:
                knocks[self._name].append(asyncio.get_running_loop().time())
                raise LeaseError("403 Forbidden")

        for name in knocks:
            Candidate(Door(name), name)
        await asyncio.sleep(60)

        assert set(knocks["a"][1:]).isdisjoint(knocks["b"][1:])
        pauses = [
            after - before for before, after in zip(knocks["a"], knocks["a"][1:], strict=False)
        ]
        assert min(pauses) >= TIMING.retry
        assert max(pauses) <= TIMING.retry * 2.2

    scenario(run())


def test_the_lease_is_named_as_other_pickers_name_it() -> None:
    assert lease_name("models", "my-pool") == "epp-models-my-pool.llm-d.ai"


def test_no_two_processes_share_an_identity() -> None:
    assert replica_identity() != replica_identity()


def test_times_are_written_in_utc_with_microseconds() -> None:
    moment = datetime(2026, 7, 1, 1, 2, 3, 45, tzinfo=timezone(timedelta(hours=2)))

    assert timestamp(moment) == "2026-06-30T23:02:03.000045Z"
