"""InferenceObjectives of a real API server, whose definition comes later than the picker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from epp.datastore.datastore import Datastore
from epp.kubernetes.client import KubeClient
from epp.kubernetes.objective_watch import ObjectiveWatch
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.watching import context_of, running
from tests.kube.caller import Caller, Refused
from tests.kube.harness import ControlPlane
from tests.kube.installation import OBJECTIVE_DEFINITION
from tests.kube.objects import namespace_of, objective

pytestmark = pytest.mark.slow


async def test_the_definition_may_come_later_than_the_picker(tmp_path: Path) -> None:
    with ControlPlane(tmp_path) as control_plane, Caller(control_plane) as admin:
        admin.create(namespace_of("models"))
        datastore = Datastore()
        client = await KubeClient.connect(control_plane.kubeconfig())
        watch = ObjectiveWatch(
            context_of(client), pool_name="pool", namespace="models", datastore=datastore
        )
        try:
            async with running(watch.run()):
                await asyncio.to_thread(admin.install_definition, OBJECTIVE_DEFINITION)
                admin.create(objective("gold", priority=5))
                admin.create(objective("plain"))
                await eventually(
                    lambda: datastore.priorities == {"gold": 5, "plain": 0}, timeout_seconds=60
                )
                with pytest.raises(Refused):
                    admin.create(objective("odd", priority="high"))
        finally:
            await client.close()
