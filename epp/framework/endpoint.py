"""A routable `ip:port` of the pool, and what is known of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Struct

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


# A struct, since one is made of each page: in 0.2 µs, as a dataclass in 1.4.
class EndpointMetrics(Struct, frozen=True, kw_only=True):
    """What a model server last reported of itself. Immutable; replaced as a whole.

    All zero until it has been heard of. Of an endpoint that is stale the load (waiting, running,
    KV-cache usage) reads as zero too: it is neutral, not idle, since stale endpoints are
    candidates only when all of them are (decision 20).
    """

    waiting_queue_size: int = 0
    running_requests_size: int = 0
    kv_cache_usage: float = 0.0
    """Share of the KV cache in use, 0 to 1."""
    active_models: frozenset[str] = frozenset()
    """LoRA adapters that are loaded and running."""
    waiting_models: frozenset[str] = frozenset()
    """LoRA adapters that requests wait for."""
    max_active_models: int = 0
    cache_block_size: int = 0
    """Tokens of a KV-cache block; 0: not known."""
    cache_num_blocks: int = 0
    updated_at: float | None = None
    """Monotonic seconds of the last page that said anything; None: never heard of."""


NO_METRICS = EndpointMetrics()


class EndpointState:
    """What is known of one endpoint beyond its metadata.

    Survives every snapshot of the pool for as long as the endpoint is the same.
    """

    __slots__ = ("attributes", "is_stale", "load", "metrics")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.load = EndpointLoad(now)
        self.metrics = NO_METRICS
        self.is_stale = False
        """Whether the data layer has heard nothing of it for too long, or never (decision 20).
        False where nothing is scraped."""
        self.attributes: dict[str, Any] = {}
        """Values of `DataType`s with scope ENDPOINT, by key."""


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
    node_address: str = ""
    """IP of the node the pod runs on; empty: not known."""
    hostname: str = ""
    """`spec.hostname` of the pod."""
    state: EndpointState = field(default_factory=EndpointState)

    @property
    def load(self) -> EndpointLoad:
        """What this process has sent there."""
        return self.state.load

    @property
    def metrics(self) -> EndpointMetrics:
        """What the model server last reported."""
        return self.state.metrics

    @property
    def is_stale(self) -> bool:
        """Whether `metrics` are too old to be believed, or were never there."""
        return self.state.is_stale

    def __str__(self) -> str:
        return self.address
