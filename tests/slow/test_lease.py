"""Replicas that compete for a real Lease, with the rights of the overlay that is for them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from epp.kubernetes.client import KubeClient
from epp.kubernetes.leader_election import ElectionTiming, LeaderElector
from epp.kubernetes.lease_client import KubeLease
from tests.fakes.eventually import eventually
from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import install

pytestmark = pytest.mark.slow

LEASE = "epp-{namespace}-model-servers.llm-d.ai"
TIMING = ElectionTiming(lease=3, renew_deadline=2, retry=0.2)
PATIENCE_SECONDS = 60.0


class Replica:
    """A candidate that writes down when it leads."""

    def __init__(self, name: str, client: KubeClient, namespace: str) -> None:
        self.elector = LeaderElector(
            KubeLease(client, namespace=namespace, name=LEASE.format(namespace=namespace)),
            on_change=lambda leads: self.history.append(leads),
            identity=name,
            timing=TIMING,
            rng=random.Random(name),
        )
        self.history: list[bool] = []
        self.task = asyncio.create_task(self.elector.run())

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


MakeReplica = Callable[[str], Replica]


@pytest.fixture
async def client(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> AsyncIterator[KubeClient]:
    account = await asyncio.to_thread(
        install, "overlays/ha", admin, control_plane, namespace, tmp_path
    )
    connected = await account.connect()
    yield connected
    await connected.close()


@pytest.fixture
async def make_replica(client: KubeClient, namespace: str) -> AsyncIterator[MakeReplica]:
    replicas: list[Replica] = []

    def make(name: str) -> Replica:
        replicas.append(Replica(name, client, namespace))
        return replicas[-1]

    yield make
    for replica in replicas:
        await replica.end()


def stored(admin: Caller, namespace: str) -> Any:
    name = LEASE.format(namespace=namespace)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    return admin.request("GET", path)["spec"]


async def leads(replica: Replica) -> None:
    await eventually(lambda: replica.elector.is_leader, PATIENCE_SECONDS)


async def test_a_leader_that_shuts_down_hands_over(
    admin: Caller, namespace: str, make_replica: MakeReplica
) -> None:
    first = make_replica("first")
    await leads(first)
    second = make_replica("second")

    await first.end()
    await leads(second)

    lease = await asyncio.to_thread(stored, admin, namespace)
    assert lease["holderIdentity"] == "second"
    assert lease["leaseTransitions"] == 2


@pytest.mark.parametrize("outage", ["frozen", "gone"])
async def test_an_outage_ends_the_lead_and_leaves_no_second_leader(
    control_plane: ControlPlane, make_replica: MakeReplica, outage: str
) -> None:
    first = make_replica("first")
    await leads(first)
    second = make_replica("second")
    await asyncio.to_thread(control_plane.freeze if outage == "frozen" else control_plane.kill)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.shield(first.task)
        assert not second.history
    finally:
        await asyncio.to_thread(control_plane.thaw if outage == "frozen" else control_plane.start)

    await leads(second)

    assert first.history == [True, False]
