"""A routable `ip:port` of the pool, and what is known of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

RECENT_SECONDS = 30.0


class EndpointId(NamedTuple):
    """Key of an endpoint's state: a pod re-created under its name is another endpoint."""

    pod_uid: str
    port: int


class EndpointLoad:
    """Requests this process has sent to one endpoint: those in flight, and those of late.

    Survives every snapshot of the pool for as long as the endpoint is the same.
    """

    __slots__ = ("_current", "_epoch", "_now", "_previous", "in_flight")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.in_flight = 0
        self._now = now
        self._epoch = 0
        self._current = 0
        self._previous = 0

    @property
    def recent_picks(self) -> int:
        """Picks of the current and the previous window of `RECENT_SECONDS`."""
        self._turn()
        return self._current + self._previous

    def acquire(self) -> None:
        """Count a request that goes to this endpoint."""
        self._turn()
        self._current += 1
        self.in_flight += 1

    def release(self) -> None:
        """Take back one `acquire`; every call belongs to exactly one."""
        if self.in_flight <= 0:
            raise ValueError("release without acquire")
        self.in_flight -= 1

    def _turn(self) -> None:
        epoch = int(self._now() / RECENT_SECONDS)
        if epoch != self._epoch:
            self._previous = self._current if epoch == self._epoch + 1 else 0
            self._current = 0
            self._epoch = epoch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Endpoint:
    """One `podIP:port`. Compared by identity; `id` tells whether two are the same endpoint."""

    id: EndpointId
    address: str
    """What a gateway connects to: `10.0.0.1:8000`, `[fd00::1]:8000`."""
    ip: str
    """Canonical text of the address without brackets."""
    port: int
    name: str
    """Name of the pod, followed by `-rank-<index of the target port>`."""
    namespace: str
    pod_name: str
    rank: int
    labels: Mapping[str, str] = field(default_factory=dict)
    load: EndpointLoad = field(default_factory=EndpointLoad)

    def __str__(self) -> str:
        return self.address
