"""The pool of a real cluster whose API server is frozen, killed, emptied, or says no."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from epp.kubernetes.client import KubeClient
from epp.kubernetes.observer import RelistReason, WatchErrorKind
from tests.kube.caller import Caller
from tests.kube.following import IMPATIENT, Cluster, Follower, closing, following
from tests.kube.harness import ControlPlane
from tests.kube.installation import POOL_DEFINITION, ServiceAccount, rendered
from tests.kube.objects import namespace_of, stored_pod

pytestmark = pytest.mark.slow

LLAMA = {"app": "llama"}


@pytest.fixture
async def follower(cluster: Cluster, client: KubeClient) -> AsyncIterator[Follower]:
    """A pool with two pods, known."""
    await cluster.create_pool(8000, **LLAMA)
    await cluster.add_pod("a", "10.0.0.1", **LLAMA)
    await cluster.add_pod("b", "10.0.0.2", **LLAMA)
    async with following(client, cluster.namespace) as follower:
        await follower.shows(await cluster.endpoints())
        yield follower


async def test_a_frozen_server_changes_nothing_until_it_thaws(
    cluster: Cluster, control_plane: ControlPlane, follower: Follower
) -> None:
    await asyncio.to_thread(control_plane.freeze)
    try:
        await follower.fails(WatchErrorKind.UNREACHABLE)
        assert follower.synced
        assert not follower.removed
    finally:
        await asyncio.to_thread(control_plane.thaw)

    await cluster.add_pod("c", "10.0.0.3", **LLAMA)
    await follower.shows(await cluster.endpoints())
    assert not follower.removed


async def test_a_killed_server_changes_nothing_and_what_it_brings_back_is_taken_up(
    cluster: Cluster, control_plane: ControlPlane, follower: Follower
) -> None:
    await asyncio.to_thread(control_plane.kill)
    await follower.fails(WatchErrorKind.UNREACHABLE)
    assert follower.synced
    assert not follower.removed
    await asyncio.to_thread(control_plane.start)

    await cluster.delete_pod("a")
    await cluster.add_pod("c", "10.0.0.3", **LLAMA)

    await follower.shows(await cluster.endpoints())
    assert follower.removed == ["10.0.0.1:8000"]
    assert follower.counts.repairs == 0


async def test_history_that_was_compacted_away_is_made_up_for_by_a_list(
    cluster: Cluster, control_plane: ControlPlane, client: KubeClient
) -> None:
    await cluster.create_pool(8000, **LLAMA)
    await cluster.add_pod("a", "10.0.0.1", **LLAMA)
    believing = replace(IMPATIENT, silent_after=600)  # silence would be a reason of its own
    async with following(client, cluster.namespace, believing) as follower:
        await follower.shows(await cluster.endpoints())
        await asyncio.to_thread(control_plane.freeze)
        new = [stored_pod(f"new-{n}", cluster.namespace, f"10.0.1.{n}", **LLAMA) for n in range(3)]
        await asyncio.to_thread(control_plane.store, "pods", new)
        await asyncio.to_thread(control_plane.compact)
        await asyncio.to_thread(control_plane.restart)

        await follower.shows(await cluster.endpoints())

        assert follower.counts.relists[RelistReason.EXPIRED] > 0
        assert not follower.removed


async def test_a_cluster_that_lost_everything_is_followed_from_its_new_beginning(
    own_control_plane: ControlPlane,
) -> None:
    with Caller(own_control_plane) as admin:
        cluster = Cluster(admin, "models")
        admin.install_definition(POOL_DEFINITION)
        admin.create(namespace_of("models"))
        await cluster.create_pool(8000, **LLAMA)
        for number in range(20):  # so that versions get higher than those of the new beginning
            await cluster.add_pod(f"pod-{number}", f"10.0.0.{number}", **LLAMA)
        connected = await KubeClient.connect(own_control_plane.kubeconfig())
        async with closing(connected) as client, following(client, "models") as follower:
            await follower.shows(await cluster.endpoints())

            await asyncio.to_thread(own_control_plane.wipe)
            await asyncio.to_thread(admin.install_definition, POOL_DEFINITION)
            admin.create(namespace_of("models"))
            await cluster.create_pool(8000, **LLAMA)
            await cluster.add_pod("new", "10.0.1.1", **LLAMA)

            await follower.shows(await cluster.endpoints())
            assert [address for _, address in follower.endpoints()] == ["10.0.1.1:8000"]
            assert follower.counts.relists[RelistReason.SILENT] > 0


async def test_a_definition_that_comes_late_goes_and_comes_back_is_noticed(
    own_control_plane: ControlPlane,
) -> None:
    with Caller(own_control_plane) as admin:
        cluster = Cluster(admin, "models")
        admin.create(namespace_of("models"))
        await cluster.add_pod("a", "10.0.0.1", **LLAMA)
        connected = await KubeClient.connect(own_control_plane.kubeconfig())
        async with closing(connected) as client, following(client, "models") as follower:
            await follower.fails(WatchErrorKind.NOT_FOUND)
            for _ in range(2):
                await asyncio.to_thread(admin.install_definition, POOL_DEFINITION)
                await cluster.create_pool(8000, **LLAMA)
                await follower.shows(await cluster.endpoints())
                assert len(follower.endpoints()) == 1

                await cluster.do("remove_definition", POOL_DEFINITION)
                await follower.loses_the_pool()


async def test_an_expired_token_is_replaced_when_there_is_a_new_one(
    cluster: Cluster, account: ServiceAccount
) -> None:
    await cluster.create_pool(8000, **LLAMA)
    await cluster.add_pod("a", "10.0.0.1", **LLAMA)
    account.write_token(expires_in_seconds=-60)
    connected = await account.connect()
    async with closing(connected) as client, following(client, cluster.namespace) as follower:
        await follower.fails(WatchErrorKind.UNAUTHORIZED)
        assert not follower.synced

        account.write_token()

        await follower.shows(await cluster.endpoints())


async def test_rights_that_are_granted_late_are_noticed(
    cluster: Cluster, account: ServiceAccount, tmp_path: Path
) -> None:
    (role,) = [
        each for each in rendered("base", cluster.namespace, tmp_path) if each["kind"] == "Role"
    ]
    await cluster.create_pool(8000, **LLAMA)
    await cluster.add_pod("a", "10.0.0.1", **LLAMA)
    await cluster.do("delete", role)
    connected = await account.connect()
    async with closing(connected) as client, following(client, cluster.namespace) as follower:
        await follower.fails(WatchErrorKind.FORBIDDEN)
        assert not follower.synced
        await cluster.do("create", role)
        await follower.shows(await cluster.endpoints())

        await cluster.do("delete", role)
        await follower.fails(WatchErrorKind.FORBIDDEN)
        assert follower.synced
        await cluster.do("create", role)
        await cluster.add_pod("b", "10.0.0.2", **LLAMA)
        await follower.shows(await cluster.endpoints())
        assert not follower.removed
