"""What a test runs against an API server, and what it counts."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from epp.datastore.datastore import Datastore
from epp.datastore.pods import Pod
from epp.framework.endpoint import Endpoint
from epp.kubernetes import objects
from epp.kubernetes.client import KubeClient
from epp.kubernetes.observer import EventType, RelistReason, WatchErrorKind
from epp.kubernetes.pool_source import KubernetesPoolSource
from epp.kubernetes.reflector import Reflector
from epp.kubernetes.reflector_context import ReflectorContext, ReflectorSettings
from epp.kubernetes.store import Store, StoreChange
from tests.fakes.eventually import eventually

IMPATIENT = ReflectorSettings(
    response_timeout=5.0,
    initial_events_timeout=5.0,
    shortest_stream=0.0,
    first_pause=0.005,
    longest_pause=0.02,
    relist_spread=0.005,
)


def impatient(**changes: Any) -> ReflectorSettings:
    """Settings under which nothing waits long, but for what the test is about."""
    return replace(IMPATIENT, **changes)


class CountingObserver:
    """Counts everything."""

    def __init__(self) -> None:
        self.is_synced: dict[str, bool] = {}
        self.contacts = 0
        self.relists: Counter[RelistReason] = Counter()
        self.failures: Counter[WatchErrorKind] = Counter()
        self.events: Counter[EventType] = Counter()
        self.repairs = 0
        self.rejected_pools = 0

    def synced(self, resource: str, is_synced: bool) -> None:
        self.is_synced[resource] = is_synced

    def contacted(self, resource: str) -> None:
        self.contacts += 1

    def relisted(self, resource: str, reason: RelistReason) -> None:
        self.relists[reason] += 1

    def watch_failed(self, resource: str, kind: WatchErrorKind) -> None:
        self.failures[kind] += 1

    def event_received(self, resource: str, type_: EventType) -> None:
        self.events[type_] += 1

    def repaired(self, resource: str, changes: int) -> None:
        self.repairs += changes

    def pool_rejected(self) -> None:
        self.rejected_pools += 1


def context_of(
    client: KubeClient,
    observer: CountingObserver | None = None,
    settings: ReflectorSettings = IMPATIENT,
    now: Callable[[], float] = time.monotonic,
) -> ReflectorContext:
    """What a test's reflectors share."""
    return ReflectorContext(
        client=client,
        observer=observer or CountingObserver(),
        rng=random.Random(0),
        settings=settings,
        now=now,
    )


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """The work as a task that must not end by itself."""
    task = asyncio.create_task(work)
    try:
        yield task
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


@dataclass
class WatchedPods:
    """A reflector of the namespace `models`, and what it told."""

    observer: CountingObserver = field(default_factory=CountingObserver)
    changes: list[StoreChange[Pod]] = field(default_factory=list)
    batches: int = 0
    refused: set[str] = field(default_factory=set)
    """Names of pods that can't be taken in."""
    store: Store[Pod] = field(init=False)
    reflector: Reflector[Pod] = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self._changed)

    def _changed(self, changes: Sequence[StoreChange[Pod]]) -> None:
        if any(change.key.name in self.refused for change in changes):
            raise KeyError("pod")
        self.changes += changes
        self.batches += 1

    @property
    def names(self) -> set[str]:
        """The pods that are known."""
        return {known.key.name for known in self.store.objects()}

    def told(self) -> list[str]:
        """`+name`, `-name` or `~name` for each change."""
        signs = {(False, True): "+", (True, False): "-", (True, True): "~"}
        return [
            signs[change.old is not None, change.new is not None] + change.key.name
            for change in self.changes
        ]

    async def until(self, *names: str) -> None:
        """Return once these pods are known and no others."""
        await eventually(lambda: self.reflector.synced and self.names == set(names))

    async def until_failed(self, kind: WatchErrorKind, times: int = 1) -> None:
        """Return once that has happened so many times."""
        await eventually(lambda: self.observer.failures[kind] >= times)


@asynccontextmanager
async def watched_pods(
    client: KubeClient,
    settings: ReflectorSettings = IMPATIENT,
    *,
    selector: str = "app=llama",
    now: Callable[[], float] = time.monotonic,
) -> AsyncIterator[WatchedPods]:
    """A reflector at work."""
    pods = WatchedPods()
    pods.reflector = Reflector(
        context_of(client, pods.observer, settings, now),
        objects.pods("models", selector),
        pods.store,
    )
    async with running(pods.reflector.run()):
        yield pods


@dataclass
class FollowedPool:
    """A source of the pool `models/pool`, and what it made of the datastore."""

    datastore: Datastore = field(default_factory=Datastore)
    observer: CountingObserver = field(default_factory=CountingObserver)

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """Where requests are sent."""
        return self.datastore.snapshot().endpoints

    @property
    def addresses(self) -> list[str]:
        """Their addresses."""
        return sorted(endpoint.address for endpoint in self.endpoints)

    @property
    def synced(self) -> bool:
        """Whether the picker is ready."""
        return self.datastore.snapshot().synced

    async def until(self, *addresses: str) -> None:
        """Return once the picker is ready with exactly these endpoints."""
        await eventually(lambda: self.synced and self.addresses == sorted(addresses))


@asynccontextmanager
async def followed_pool(
    client: KubeClient, settings: ReflectorSettings = IMPATIENT
) -> AsyncIterator[FollowedPool]:
    """A pool source at work."""
    pool = FollowedPool()
    source = KubernetesPoolSource(
        context_of(client, pool.observer, settings),
        pool_name="pool",
        namespace="models",
        datastore=pool.datastore,
    )
    async with running(source.run()):
        yield pool
