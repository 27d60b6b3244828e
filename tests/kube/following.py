"""A pool that is followed in a real cluster, and what should be known of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from epp.datastore.datastore import Datastore
from epp.datastore.snapshot import Change
from epp.kubernetes.client import KubeClient
from epp.kubernetes.observer import WatchErrorKind
from epp.kubernetes.pool_source import KubernetesPoolSource
from epp.kubernetes.reflector_context import ReflectorSettings
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.objects import Manifest, inference_pool, pod, pod_status
from tests.fakes.kubernetes.watching import CountingObserver, context_of, running
from tests.kube.caller import Caller, Refused, path_of

POOL = "model-servers"
"""As in config/base."""

PATIENCE_SECONDS = 60.0
IMPATIENT = ReflectorSettings(
    response_timeout=2,
    list_read_timeout=20,
    watch_seconds=(2, 4),
    watch_grace=1,
    silent_after=1.5,
    resync_interval=0,
    relist_spread=0.2,
    first_pause=0.05,
    longest_pause=0.5,
)

Endpoints = set[tuple[str, str]]
"""The pod's uid and the address, of each."""


class Follower:
    """A datastore that is kept in step with the pool of a namespace."""

    def __init__(
        self, client: KubeClient, namespace: str, settings: ReflectorSettings = IMPATIENT
    ) -> None:
        self.counts = CountingObserver()
        self.datastore = Datastore()
        self.removed: list[str] = []
        self.sizes: list[int] = []
        """How many endpoints each snapshot had."""
        self.datastore.subscribe(self._note)
        self._source = KubernetesPoolSource(
            context_of(client, self.counts, settings),
            pool_name=POOL,
            namespace=namespace,
            datastore=self.datastore,
        )

    def _note(self, change: Change) -> None:
        self.removed += [endpoint.address for endpoint in change.removed]
        self.sizes.append(len(change.new.endpoints))

    @property
    def synced(self) -> bool:
        """Whether it would be ready."""
        return self.datastore.snapshot().synced

    def endpoints(self) -> Endpoints:
        """What a request could be sent to."""
        return {(each.id.pod_uid, each.address) for each in self.datastore.snapshot().endpoints}

    async def shows(self, expected: Endpoints, patience: float = PATIENCE_SECONDS) -> None:
        """Return once these are the endpoints."""
        await eventually(lambda: self.synced and self.endpoints() == expected, patience)

    async def agrees_with(self, look: Callable[[], Awaitable[Endpoints]]) -> None:
        """Return once these are the endpoints that another look shows at that time.

        For objects that were stored behind the API server's back: it may not know all of them yet.
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with suppress(TimeoutError):
                    await self.shows(await look(), 5.0)
                    return

    async def has_only(self, prefix: str) -> None:
        """Return once there are endpoints, all of them with such an address."""
        await eventually(
            lambda: {address.startswith(prefix) for _, address in self.endpoints()} == {True},
            PATIENCE_SECONDS,
        )

    async def loses_the_pool(self) -> None:
        """Return once it knows of no pool."""
        await eventually(lambda: not self.synced and not self.endpoints(), PATIENCE_SECONDS)

    async def fails(self, kind: WatchErrorKind) -> None:
        """Return once an attempt from now on has failed in this way."""
        before = self.counts.failures[kind]
        await eventually(lambda: self.counts.failures[kind] > before, PATIENCE_SECONDS)

    async def run(self) -> None:
        """Follow the pool for ever."""
        await self._source.run()


@asynccontextmanager
async def following(
    client: KubeClient, namespace: str, settings: ReflectorSettings = IMPATIENT
) -> AsyncIterator[Follower]:
    """Follow the pool of a namespace."""
    follower = Follower(client, namespace, settings)
    async with running(follower.run()):
        yield follower


@asynccontextmanager
async def closing(client: KubeClient) -> AsyncIterator[KubeClient]:
    """Close the client in the end, whatever becomes of the test."""
    try:
        yield client
    finally:
        await client.close()


class Cluster:
    """The pool and the pods of a namespace, changed by their owner; nothing here blocks."""

    def __init__(self, owner: Caller, namespace: str) -> None:
        self._owner = owner
        self.namespace = namespace

    async def do(self, method: str, *arguments: Any, **query: str) -> Any:
        """Call one of the owner's methods."""
        return await asyncio.to_thread(getattr(self._owner, method), *arguments, **query)

    def _pool(self) -> Manifest:
        return inference_pool(name=POOL, namespace=self.namespace)

    async def create_pool(self, *ports: int, **labels: str) -> None:
        """Create the pool."""
        await self.do(
            "create", inference_pool(*ports, labels=labels, name=POOL, namespace=self.namespace)
        )

    async def change_pool(self, **spec: Any) -> None:
        """Merge into the pool's spec."""
        await self.do("patch", self._pool(), {"spec": spec})

    async def delete_pool(self) -> None:
        """Delete the pool."""
        await self.do("delete", self._pool())

    async def add_pod(self, name: str, ip: str, **labels: str) -> None:
        """Create a pod that is ready."""
        await self.do("create", pod(name, labels, namespace=self.namespace))
        await self.set_status(name, ip)

    async def set_status(self, name: str, ip: str, *, ready: bool = True) -> None:
        """Say where a pod runs, and whether it is ready."""
        status = pod_status(ip, ready=ready)
        await self.do("patch", pod(name, namespace=self.namespace), status, "/status")

    async def label_pod(self, name: str, **labels: str | None) -> None:
        """Change labels of a pod; None removes one."""
        await self.do(
            "patch", pod(name, namespace=self.namespace), {"metadata": {"labels": labels}}
        )

    async def ask_for_deletion(self, name: str) -> None:
        """Begin the graceful deletion of a pod."""
        await self.do("delete", pod(name, namespace=self.namespace))

    async def delete_pod(self, name: str) -> None:
        """Delete a pod as a kubelet does in the end."""
        await self.do("delete", pod(name, namespace=self.namespace), gracePeriodSeconds="0")

    async def endpoints(self) -> Endpoints:
        """What should be known, by a fresh look."""
        return await asyncio.to_thread(self._endpoints)

    def _endpoints(self) -> Endpoints:
        try:
            spec = self._owner.request("GET", path_of(self._pool()))["spec"]
        except Refused as refused:
            if refused.status != 404:
                raise
            return set()
        labels = spec["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        listed = self._owner.request("GET", path, labelSelector=selector)["items"]
        return {
            (each["metadata"]["uid"], f"{each['status']['podIP']}:{port['number']}")
            for each in listed
            if _takes_requests(each)
            for port in spec["targetPorts"]
        }


def _takes_requests(manifest: dict[str, Any]) -> bool:
    if "deletionTimestamp" in manifest["metadata"]:
        return False
    conditions = manifest["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
