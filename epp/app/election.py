"""This replica's part in electing a leader: from the first synced pool to a lost lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from epp.kubernetes.leader_election import LeaderElector
from epp.support.tasks import TaskOwner


class Election:
    """One candidacy; `on_lost` is told when another replica leads, or may lead, in its place."""

    def __init__(
        self,
        elector: LeaderElector,
        *,
        wait_synced: Callable[[], Awaitable[None]],
        on_lost: Callable[[], None],
        tasks: TaskOwner,
    ) -> None:
        self._elector = elector
        self._wait_synced = wait_synced
        self._on_lost = on_lost
        self._is_over = False
        self._task = tasks.spawn(self._run(), "leader election")

    @property
    def leads(self) -> bool:
        """Whether the lease is this replica's."""
        return self._elector.is_leader

    @property
    def problem(self) -> str | None:
        """What stands in the way of holding a lease, for people."""
        return self._elector.problem

    async def end(self) -> None:
        """Hand the lease over."""
        self._is_over = True
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        # One that could not serve yet would keep the lease from those that can.
        await self._wait_synced()
        try:
            await self._elector.run()
        finally:
            if not self._is_over:
                self._on_lost()
