"""Which health is reported under which name, and what stands in the way of being ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

EXT_PROC_SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
LIVENESS = "liveness"
READINESS_NAMES = ("", "readiness", EXT_PROC_SERVICE, "inference-extension")


class ServingStatus(IntEnum):
    """Status values of grpc.health.v1."""

    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthConditions:
    """What readiness depends on, at one moment.

    `is_leader` counts only where replicas elect one; there, unknown names are told apart.
    """

    has_election: bool = False
    is_synced: bool = False
    is_pool_gone: bool = False
    is_protocol_supported: bool = True
    is_leader: bool = False
    is_draining: bool = False

    def status_of(self, service: str) -> ServingStatus:
        """The status under one name (decision 6).

        Liveness is unconditional: no restart brings a pool, a lease or an end to draining nearer.
        """
        if service == LIVENESS:
            return ServingStatus.SERVING
        if self.has_election and service not in READINESS_NAMES:
            return ServingStatus.SERVICE_UNKNOWN
        return ServingStatus.NOT_SERVING if self.not_ready_reasons() else ServingStatus.SERVING

    def statuses(self) -> dict[str, ServingStatus]:
        """The status under every known name."""
        return {name: self.status_of(name) for name in (*READINESS_NAMES, LIVENESS)}

    def not_ready_reasons(self) -> list[str]:
        """Why this replica should get no traffic; empty when it is ready."""
        reasons = {
            "the pool has not been read yet": not self.is_synced and not self.is_pool_gone,
            "the pool is gone": self.is_pool_gone,
            "not every parser speaks the pool's appProtocol": not self.is_protocol_supported,
            "this replica is not the leader": self.has_election and not self.is_leader,
            "shutting down": self.is_draining,
        }
        return [reason for reason, applies in reasons.items() if applies]


class HealthState:
    """The current conditions, and a way to await other ones."""

    def __init__(self, *, has_election: bool = False) -> None:
        self._conditions = HealthConditions(has_election=has_election)
        self._holds_lease: Callable[[], bool] = lambda: True
        self._changed = asyncio.Event()
        self._watchers: dict[object, Callable[[], None]] = {}
        self._is_closed = False

    @property
    def conditions(self) -> HealthConditions:
        """The conditions as they are now."""
        if self._conditions.is_leader and not self._holds_lease():
            return replace(self._conditions, is_leader=False)
        return self._conditions

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def set_synced(self, is_synced: bool, *, is_pool_gone: bool = False) -> None:
        """Pool and pods have been read, or the pool there was is gone."""
        self._become(replace(self._conditions, is_synced=is_synced, is_pool_gone=is_pool_gone))

    def set_protocol_supported(self, is_supported: bool) -> None:
        """The parsers understand the pool's appProtocol, or neither asks for one."""
        self._become(replace(self._conditions, is_protocol_supported=is_supported))

    def set_leader(self, is_leader: bool) -> None:
        """This replica has won the lease, or knows that it lost it."""
        self._become(replace(self._conditions, is_leader=is_leader))

    def doubt_leader(self, holds_lease: Callable[[], bool]) -> None:
        """Ask whether the lease can still be held each time that the leader's health is asked for.

        A process that was frozen is asked before it has noticed that another one leads.
        """
        self._holds_lease = holds_lease

    def set_draining(self) -> None:
        """The process has been told to stop."""
        self._become(replace(self._conditions, is_draining=True))

    def not_ready_reasons(self) -> list[str]:
        """Why this replica should get no traffic; empty when it is ready."""
        return self.conditions.not_ready_reasons()

    async def changed(self) -> None:
        """Wait for other conditions, or for `close`."""
        if not self._is_closed:
            await self._changed.wait()

    def watch(self, watcher: object, notify: Callable[[], None]) -> None:
        """Call `notify` for other conditions, and for `close`, until `unwatch`."""
        self._watchers[watcher] = notify

    def unwatch(self, watcher: object) -> None:
        """Call no more."""
        self._watchers.pop(watcher, None)

    def close(self) -> None:
        """End every watch; called before servers stop, which would wait for them."""
        self._is_closed = True
        self._notify()

    def _become(self, conditions: HealthConditions) -> None:
        if conditions != self._conditions:
            self._conditions = conditions
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        for notify in list(self._watchers.values()):
            notify()
