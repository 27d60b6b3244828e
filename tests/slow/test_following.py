"""The pool of a real cluster, while everything in it changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from epp.kubernetes.client import KubeClient
from tests.kube.caller import Caller, Refused
from tests.kube.following import Cluster, following
from tests.kube.harness import ControlPlane
from tests.kube.installation import POOL_DEFINITION
from tests.kube.objects import namespace_of, stored_pod

pytestmark = pytest.mark.slow

LLAMA, QWEN = {"app": "llama"}, {"app": "qwen"}


async def test_what_happens_to_a_pod_is_known(cluster: Cluster, client: KubeClient) -> None:
    await cluster.create_pool(8000, 8001, **LLAMA)
    async with following(client, cluster.namespace) as follower:
        await follower.shows(set())
        await cluster.add_pod("a", "10.0.0.1", **LLAMA)
        await cluster.add_pod("b", "10.0.0.2", **QWEN)
        await follower.shows(await cluster.endpoints())
        assert sorted(address for _, address in follower.endpoints()) == [
            "10.0.0.1:8000",
            "10.0.0.1:8001",
        ]

        await cluster.label_pod("b", **LLAMA)
        await cluster.set_status("a", "10.0.0.1", ready=False)
        await follower.shows(await cluster.endpoints())
        assert {address for _, address in follower.endpoints()} == {
            "10.0.0.2:8000",
            "10.0.0.2:8001",
        }

        await cluster.ask_for_deletion("b")
        await follower.shows(set())


async def test_a_pod_that_comes_back_under_its_name_is_another_one(
    cluster: Cluster, client: KubeClient
) -> None:
    await cluster.create_pool(8000, **LLAMA)
    await cluster.add_pod("a", "10.0.0.1", **LLAMA)
    async with following(client, cluster.namespace) as follower:
        await follower.shows(before := await cluster.endpoints())

        await cluster.delete_pod("a")
        await cluster.add_pod("a", "10.0.0.1", **LLAMA)

        await follower.shows(after := await cluster.endpoints())
        assert len(before | after) == 2


async def test_pools_come_and_go(cluster: Cluster, client: KubeClient) -> None:
    await cluster.add_pod("a", "10.0.0.1", **LLAMA)
    async with following(client, cluster.namespace) as follower:
        assert not follower.synced
        await cluster.create_pool(8000, **LLAMA)
        await follower.shows(await cluster.endpoints())
        await cluster.change_pool(targetPorts=[{"number": 9000}])
        await follower.shows(await cluster.endpoints())

        await cluster.delete_pool()
        await follower.loses_the_pool()
        await cluster.create_pool(8000, 8001, **LLAMA)

        await follower.shows(await cluster.endpoints())
        assert len(follower.endpoints()) == 2


async def test_any_sequence_of_changes_ends_in_what_a_fresh_look_shows(
    cluster: Cluster, client: KubeClient
) -> None:
    rng = random.Random(7)
    names = [f"pod-{number}" for number in range(8)]

    async def step() -> None:
        name, labels = rng.choice(names), rng.choice([LLAMA, QWEN])
        ip = f"10.0.0.{rng.randint(1, 250)}"
        actions: list[Callable[[], Awaitable[None]]] = [
            lambda: cluster.add_pod(name, ip, **labels),
            lambda: cluster.set_status(name, ip, ready=rng.random() < 0.7),
            lambda: cluster.label_pod(name, **labels),
            lambda: cluster.ask_for_deletion(name),
            lambda: cluster.delete_pod(name),
            lambda: cluster.change_pool(selector={"matchLabels": labels}),
            lambda: cluster.change_pool(targetPorts=[{"number": rng.randint(8000, 8003)}]),
        ]
        try:
            await rng.choices(actions, weights=[6, 4, 3, 1, 2, 1, 1])[0]()
        except Refused as refused:
            assert refused.status in (404, 409, 422)  # noqa: PT017 - it is not there, or is already

    await cluster.create_pool(8000, **LLAMA)
    async with following(client, cluster.namespace) as follower:
        for _ in range(10):
            for _ in range(25):
                await step()
            await follower.shows(await cluster.endpoints())
        assert max(follower.sizes) > 1
        assert follower.counts.repairs == 0


async def test_a_selector_is_swapped_without_an_empty_moment_while_everything_changes(
    cluster: Cluster, client: KubeClient
) -> None:
    await cluster.create_pool(8000, **LLAMA)
    for number in range(6):
        await cluster.add_pod(f"llama-{number}", f"10.0.0.{number}", **LLAMA)
        await cluster.add_pod(f"qwen-{number}", f"10.0.1.{number}", **QWEN)

    async def restless() -> None:
        """Two of each kind lose and gain readiness."""
        for turn in range(1_000_000):
            for number in range(2):
                for kind, net in (("llama", 0), ("qwen", 1)):
                    name, ip = f"{kind}-{number}", f"10.0.{net}.{number}"
                    await cluster.set_status(name, ip, ready=bool(turn % 2))

    async with following(client, cluster.namespace) as follower:
        await follower.shows(await cluster.endpoints())
        follower.sizes.clear()
        load = asyncio.create_task(restless())
        for labels in (QWEN, LLAMA, QWEN):
            await cluster.change_pool(selector={"matchLabels": labels})
            net = "10.0.0." if labels == LLAMA else "10.0.1."
            await follower.has_only(net)
        load.cancel()
        await asyncio.wait({load})

        await follower.shows(await cluster.endpoints())
        assert min(follower.sizes) >= 4


async def test_five_thousand_pods(
    cluster: Cluster, client: KubeClient, control_plane: ControlPlane
) -> None:
    await cluster.create_pool(8000, 8001, **LLAMA)
    everything = [
        stored_pod(
            f"pod-{number}", cluster.namespace, f"10.1.{number >> 8}.{number & 255}", **LLAMA
        )
        for number in range(5_000)
    ]
    await asyncio.to_thread(control_plane.store, "pods", everything[:4_000])
    async with following(client, cluster.namespace) as follower:
        await follower.agrees_with(cluster.endpoints)
        await asyncio.to_thread(control_plane.store, "pods", everything[4_000:])
        await cluster.delete_pod("pod-0")

        await follower.agrees_with(cluster.endpoints)

        assert len(follower.endpoints()) == 2 * 4_999


async def test_a_server_without_watch_lists_is_asked_page_by_page(tmp_path: Path) -> None:
    with (
        ControlPlane(tmp_path, flags=["--feature-gates=WatchList=false"]) as older,
        Caller(older) as admin,
    ):
        admin.install_definition(POOL_DEFINITION)
        admin.create(namespace_of("models"))
        cluster = Cluster(admin, "models")
        await cluster.create_pool(8000, **LLAMA)
        older.store(
            "pods",
            [
                stored_pod(f"pod-{number}", "models", f"10.1.{number >> 8}.{number & 255}", **LLAMA)
                for number in range(1_100)
            ],
        )
        client = await KubeClient.connect(older.kubeconfig())
        async with following(client, "models") as follower:
            await follower.shows(await cluster.endpoints())
            await cluster.delete_pod("pod-7")
            await follower.shows(await cluster.endpoints())
            assert len(follower.endpoints()) == 1_099
        await client.close()
