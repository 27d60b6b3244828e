"""Which of several replicas leads: the one that holds a Lease, by the rules of client-go.

A candidate trusts its own clock only. It notes when it saw the record change, and takes the lease
over once that is longer ago than the record's duration; what times the record names is never
looked at. Every write carries the version that was read, so of two candidates one is refused.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from epp.kubernetes.lease import Lease, LeaseError, LeaseRecord, LeaseStore

log = structlog.get_logger(__name__)

_JITTER = 1.2
_RELEASED_SECONDS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTiming:
    """How long things may take, in seconds; the defaults are the reference's."""

    lease: int = 15
    """Without a renewal for so long, others may take over."""
    renew_deadline: float = 10.0
    """Without a renewal for so long, the leader stops being one."""
    retry: float = 2.0
    """Pause between attempts."""

    @property
    def attempt(self) -> float:
        """Longest time for one attempt: two of them fit into the deadline."""
        return self.renew_deadline / 2


def lease_name(namespace: str, pool: str) -> str:
    """The Lease that replicas of this pool's picker compete for, whichever picker they are."""
    return f"epp-{namespace}-{pool}.llm-d.ai"


def replica_identity() -> str:
    """A name for this process that no other one ever has."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """One candidate. `on_change` is told when this replica becomes the leader and when it no
    longer is."""

    def __init__(
        self,
        leases: LeaseStore,
        *,
        on_change: Callable[[bool], None],
        identity: str | None = None,
        timing: ElectionTiming | None = None,
        rng: random.Random | None = None,
        now: Callable[[], float] = time.monotonic,
        calendar: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._leases = leases
        self._on_change = on_change
        self._identity = identity or replica_identity()
        self._timing = timing or ElectionTiming()
        self._rng = rng or random.Random()
        self._now = now
        self._calendar = calendar
        self._leads = False
        self._may_hold = False
        self._last_renewal = 0.0
        self._observed: LeaseRecord | None = None
        self._observed_at = 0.0
        self._problem = ""

    @property
    def is_leader(self) -> bool:
        """Whether nobody else can hold the lease now."""
        return self._leads and self._left() > 0

    @property
    def problem(self) -> str | None:
        """Why the lease can't be read or written; None when it can."""
        return f"leader election: {self._problem}" if self._problem else None

    async def run(self) -> None:
        """Compete for the lease, then hold it; returns when it is lost.

        Cancelled, it gives the lease back, so that another replica need not wait for its end.
        """
        try:
            while not await self._attempt(self._timing.attempt):
                pause = self._timing.retry
                await asyncio.sleep(pause * (1 + self._rng.random() * _JITTER))
            self._become(leads=True)
            await self._hold()
        finally:
            self._become(leads=False)
            await self._release()

    async def _hold(self) -> None:
        while self._may_hold and (left := self._left()) > 0:
            await asyncio.sleep(min(self._timing.retry, left))
            if (left := self._left()) > 0:
                await self._attempt(min(self._timing.attempt, left))
        log.error("lease lost", identity=self._identity, problem=self._problem or "taken over")
        self._may_hold = False

    async def _attempt(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                taken = await self._take()
        except (LeaseError, TimeoutError) as error:
            self._report(str(error) or f"no answer within {seconds:.3g} s")
            return False
        self._report("")
        return taken

    async def _take(self) -> bool:
        # Others count from when they see the renewal, which is not before this moment.
        started = self._now()
        lease = await self._leases.read()
        record = LeaseRecord() if lease is None else lease.record
        self._observe(record)
        if record.holder not in ("", self._identity) and not self._is_expired(record):
            self._may_hold = False
            return False
        self._may_hold = True
        await self._leases.write(self._claim(record), over=lease)
        self._last_renewal = started
        return True

    def _observe(self, record: LeaseRecord) -> None:
        if record == self._observed:
            return
        known = "" if self._observed is None else self._observed.holder
        if record.holder not in (known, self._identity, ""):
            log.info("another replica leads", holder=record.holder)
        self._observed, self._observed_at = record, self._now()

    def _is_expired(self, record: LeaseRecord) -> bool:
        return self._now() - self._observed_at >= record.duration_seconds

    def _claim(self, old: LeaseRecord) -> LeaseRecord:
        moment = timestamp(self._calendar())
        keeps = old.holder == self._identity
        return LeaseRecord(
            holder=self._identity,
            duration_seconds=self._timing.lease,
            acquire_time=old.acquire_time if keeps else moment,
            renew_time=moment,
            transitions=old.transitions + (not keeps),
        )

    async def _release(self) -> None:
        if not self._may_hold:
            return
        try:
            async with asyncio.timeout(self._timing.attempt):
                lease = await self._leases.read()
                if lease is not None and lease.record.holder == self._identity:
                    await self._give_back(lease)
        except (LeaseError, TimeoutError) as error:
            log.warning("the lease could not be released", problem=str(error) or "no answer")

    async def _give_back(self, lease: Lease) -> None:
        moment = timestamp(self._calendar())
        record = LeaseRecord(
            duration_seconds=_RELEASED_SECONDS,
            acquire_time=moment,
            renew_time=moment,
            transitions=lease.record.transitions,
        )
        await self._leases.write(record, over=lease)
        log.info("lease released", identity=self._identity)

    def _left(self) -> float:
        return self._last_renewal + self._timing.renew_deadline - self._now()

    def _become(self, *, leads: bool) -> None:
        if leads != self._leads:
            self._leads = leads
            if leads:
                log.info("this replica leads", identity=self._identity)
            self._on_change(leads)

    def _report(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("leader election failed for now", problem=problem)
        self._problem = problem


def timestamp(moment: datetime) -> str:
    """Text of a time as a Lease holds it: RFC 3339 in UTC, with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
