"""Following a kind that only a plugin knows of, on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from epp.kubernetes.client import KubeClient
from epp.kubernetes.object_feed import ObjectFeed
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.watching import context_of, running
from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import OBJECTIVE_DEFINITION
from tests.kube.objects import namespace_of, objective

pytestmark = pytest.mark.slow


class Told:
    def __init__(self) -> None:
        self.live: dict[str, Mapping[str, Any]] = {}
        self.gone: list[str] = []

    def __call__(self, obj: Mapping[str, Any], deleted: bool) -> None:
        name = obj["metadata"]["name"]
        if deleted:
            self.live.pop(name, None)
            self.gone.append(name)
        else:
            self.live[name] = obj


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


@asynccontextmanager
async def connected(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    client = await KubeClient.connect(control_plane.kubeconfig())
    try:
        yield client
    finally:
        await client.close()


def feed_of(client: KubeClient, told: Told, **kind: Any) -> ObjectFeed:
    return ObjectFeed(context_of(client), tell=told, pause_seconds=0.05, **kind)


async def test_every_object_of_a_kind_is_told_as_it_comes_changes_and_goes(
    admin: Caller, control_plane: ControlPlane, namespace: str
) -> None:
    told = Told()
    await asyncio.to_thread(admin.apply, config_map(namespace, "a", x="1"))

    async with (
        connected(control_plane) as client,
        running(
            feed_of(
                client, told, group="", version="v1", kind="ConfigMap", namespace=namespace
            ).run()
        ),
    ):
        await eventually(lambda: "a" in told.live)
        assert told.live["a"]["data"] == {"x": "1"}
        await asyncio.to_thread(admin.apply, config_map(namespace, "a", x="2"))
        await eventually(lambda: told.live["a"]["data"] == {"x": "2"})
        await asyncio.to_thread(admin.delete, config_map(namespace, "a"))
        await eventually(lambda: told.gone == ["a"])


async def test_a_kind_may_be_defined_later(tmp_path: Path) -> None:
    told = Told()
    with ControlPlane(tmp_path) as control_plane, Caller(control_plane) as admin:
        admin.create(namespace_of("models"))
        kind = {"group": "llm-d.ai", "version": "v1alpha2", "kind": "InferenceObjective"}
        async with (
            connected(control_plane) as client,
            running(feed_of(client, told, namespace="models", **kind).run()),
        ):
            await asyncio.to_thread(admin.install_definition, OBJECTIVE_DEFINITION)
            await asyncio.to_thread(admin.create, objective("gold", priority=5))
            await eventually(lambda: "gold" in told.live, timeout_seconds=60)
