"""Events about a pool in a real API server, as `kubectl describe inferencepool` finds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from epp.kubernetes.events import Note, PoolEventWriter
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.objects import inference_pool
from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import flags_of, install_manifests, rendered

pytestmark = pytest.mark.slow

POOL = "model-servers"
EMPTY = Note(type="Warning", reason="NoReadyEndpoints", message="nobody is there")


class Outcomes(list[str]):
    """What became of each."""

    def are(self, wanted: list[str]) -> bool:
        return self == wanted

    def count_in(self, outcome: str) -> None:
        self.append(str(outcome))


@asynccontextmanager
async def writing(
    admin: Caller, control_plane: ControlPlane, namespace: str, folder: Path, *components: str
) -> AsyncIterator[tuple[PoolEventWriter, Outcomes]]:
    """A writer with the rights that config/ gives it."""
    manifests = rendered("base", namespace, folder, *components)
    assert ("--emit-events" in flags_of(manifests)) == bool(components)
    account = install_manifests(manifests, admin, control_plane, folder)
    client = await account.connect()
    outcomes = Outcomes()
    writer = PoolEventWriter(
        client, namespace=namespace, pool_name=POOL, counted=outcomes.count_in, pause=0
    )
    task = asyncio.ensure_future(writer.run())
    try:
        yield writer, outcomes
    finally:
        task.cancel()
        await asyncio.wait({task})
        await client.close()


def events_of(admin: Caller, namespace: str, uid: str) -> list[dict[str, Any]]:
    selector = f"involvedObject.kind=InferencePool,involvedObject.uid={uid}"
    path = f"/api/v1/namespaces/{namespace}/events"
    found: list[dict[str, Any]] = admin.request("GET", path, fieldSelector=selector)["items"]
    return found


async def test_an_event_is_written_beside_the_pool_and_counted_on(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    pool = admin.create(inference_pool(8000, name=POOL, namespace=namespace))
    uid = pool["metadata"]["uid"]
    parts = (admin, control_plane, namespace, tmp_path, "components/events")
    async with writing(*parts) as (writer, outcomes):
        for count in (1, 2):
            writer.tell(EMPTY)
            await eventually(partial(outcomes.are, ["written"] * count))

            (event,) = events_of(admin, namespace, uid)
            assert (event["reason"], event["type"], event["count"]) == (
                "NoReadyEndpoints",
                "Warning",
                count,
            )


async def test_without_the_rights_there_is_none(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    pool = admin.create(inference_pool(8000, name=POOL, namespace=namespace))
    async with writing(admin, control_plane, namespace, tmp_path) as (writer, outcomes):
        writer.tell(EMPTY)
        await eventually(partial(outcomes.are, ["failed"]))

    assert events_of(admin, namespace, pool["metadata"]["uid"]) == []
