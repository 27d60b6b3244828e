"""Whatever happens in a cluster, in any order: in the end the endpoints are what they must be."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from epp.datastore.snapshot import Change
from epp.framework.endpoint import EndpointId
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import Manifest, inference_pool, pod, pod_status
from tests.fakes.kubernetes.store import Refusal
from tests.fakes.kubernetes.watching import FollowedPool, followed_pool, impatient

LABELS = ({"app": "llama"}, {"app": "mistral"}, {"app": "llama", "tier": "new"}, {"tier": "new"})
NAMES = tuple("abcdef")
SETTINGS = impatient(silent_after=0.0, page_size=2)


class Walk:
    """Does to the cluster what its random numbers say."""

    def __init__(self, kube: FakeKubeApi, rng: random.Random) -> None:
        self._kube = kube
        self._rng = rng
        self._steps = [
            *(self.create_pod, self.change_status, self.relabel, self.ask_to_go) * 4,
            *(self.remove, self.edit_pool, self.end_watches, self.cut) * 2,
            self.delete_pool,
            self.restart,
            self.expire,
            self.send_error,
            self.send_bookmarks,
            self.breathe,
        ]

    async def step(self) -> None:
        try:
            await self._rng.choice(self._steps)()
        except Refusal:
            return  # there is no such object, or there is one

    def _pod(self) -> Manifest:
        return pod(self._rng.choice(NAMES), self._rng.choice(LABELS))

    async def create_pod(self) -> None:
        await self._kube.create(self._pod())
        await self.change_status()

    async def change_status(self) -> None:
        ip = f"10.0.0.{self._rng.randrange(1, 5)}"
        status = pod_status(ip, ready=self._rng.random() < 0.8)
        await self._kube.patch(self._pod(), status, "/status")

    async def relabel(self) -> None:
        labels = dict.fromkeys(("app", "tier")) | self._rng.choice(LABELS)
        await self._kube.patch(self._pod(), {"metadata": {"labels": labels}})

    async def ask_to_go(self) -> None:
        await self._kube.delete(self._pod())

    async def remove(self) -> None:
        await self._kube.delete(self._pod(), grace_seconds=0)

    async def edit_pool(self) -> None:
        ports = self._rng.sample((8000, 8001, 8002), self._rng.randrange(1, 4))
        manifest = inference_pool(*ports, labels=self._rng.choice(LABELS))
        try:
            await self._kube.replace(manifest)
        except Refusal:
            await self._kube.create(manifest)

    async def delete_pool(self) -> None:
        await self._kube.delete(inference_pool())

    async def end_watches(self) -> None:
        self._kube.end_watches()

    async def cut(self) -> None:
        self._kube.cut()

    async def restart(self) -> None:
        await self._kube.restart()

    async def expire(self) -> None:
        self._kube.expire()

    async def send_error(self) -> None:
        self._kube.send_error(410, "Expired")

    async def send_bookmarks(self) -> None:
        self._kube.send_bookmarks()

    async def breathe(self) -> None:
        for _ in range(self._rng.randrange(20)):
            await asyncio.sleep(0)


def expected(pools: list[Manifest], pods: list[Manifest]) -> list[str]:
    """The endpoints of a cluster, by a reading of its own."""
    return sorted(_expected(pools, pods))


def _expected(pools: list[Manifest], pods: list[Manifest]) -> Iterator[str]:
    for pool in pools:
        selector = pool["spec"]["selector"]["matchLabels"].items()
        for each in pods:
            metadata, status = each["metadata"], each["status"]
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions(status))
            selected = selector <= metadata["labels"].items()
            if selected and ready and "deletionTimestamp" not in metadata:
                for port in pool["spec"]["targetPorts"]:
                    yield f"{metadata['uid']} {status['podIP']}:{port['number']}"


def conditions(status: Manifest) -> list[dict[str, str]]:
    found: list[dict[str, str]] = status.get("conditions", [])
    return found


def actual(pool: FollowedPool) -> list[str]:
    endpoints = pool.datastore.snapshot().endpoints
    return sorted(f"{endpoint.id.pod_uid} {endpoint.address}" for endpoint in endpoints)


@pytest.mark.parametrize("seed", range(12))
async def test_a_random_walk_ends_where_a_fresh_list_says(kube: FakeKubeApi, seed: int) -> None:
    rng = random.Random(seed)
    kube.watch_list = "off" if seed % 3 == 2 else "on"
    walk = Walk(kube, rng)
    added: Counter[EndpointId] = Counter()
    going: set[str] = set()

    def changed(change: Change) -> None:
        added.update(endpoint.id for endpoint in change.added)
        added.subtract(endpoint.id for endpoint in change.removed)
        assert set(added.values()) <= {0, 1}
        live = {endpoint.id for endpoint in change.new.endpoints}
        assert live == {id_ for id_, count in added.items() if count}
        assert not {id_.pod_uid for id_ in live} & going

    async with kube.client() as client, followed_pool(client, SETTINGS) as pool:
        pool.datastore.subscribe(changed)
        for _ in range(30):
            for _ in range(rng.randrange(1, 12)):
                await walk.step()
            pools = await kube.objects(inference_pool())
            pods = await kube.objects(pod("any"))
            must_be = expected(pools, pods)
            await eventually(lambda must_be=must_be: actual(pool) == must_be)  # type: ignore[misc]
            await eventually(lambda pools=pools: pool.synced == bool(pools))  # type: ignore[misc]
            going |= {p["metadata"]["uid"] for p in pods if "deletionTimestamp" in p["metadata"]}
        assert pool.observer.repairs == 0

    await eventually(lambda: not kube.connections)
