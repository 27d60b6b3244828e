"""Events about a pool, written to an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from epp.kubernetes import events as module
from epp.kubernetes.client import KubeClient
from epp.kubernetes.events import Note, PoolEventWriter
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import inference_pool
from tests.fakes.logs import awaitable_logs

EVENT = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "x", "namespace": "models"}}
EMPTY = Note(type="Warning", reason="NoReadyEndpoints", message="nobody is there")
BACK = Note(reason="EndpointsReady", message="there are endpoints again: 2")


class Writing:
    """A writer at work beside an API server."""

    def __init__(self, kube: FakeKubeApi, client: KubeClient) -> None:
        self._kube = kube
        self.now = 1000.0
        self.outcomes: list[str] = []
        self.writer = PoolEventWriter(
            client,
            namespace="models",
            pool_name="pool",
            counted=lambda outcome: self.outcomes.append(str(outcome)),
            pause=0,
            now=lambda: self.now,
        )

    async def tell(self, *notes: Note) -> None:
        """Tell and wait until as much has come of it."""
        wanted = len(self.outcomes) + len({note.reason for note in notes})
        for note in notes:
            self.writer.tell(note)
        await eventually(lambda: len(self.outcomes) == wanted)

    async def events(self) -> list[dict[str, Any]]:
        return await self._kube.objects(EVENT)


@pytest.fixture
async def writing(kube: FakeKubeApi, client: KubeClient) -> AsyncIterator[Writing]:
    await kube.create(inference_pool(8000))
    writing = Writing(kube, client)
    task = asyncio.ensure_future(writing.writer.run())
    yield writing
    task.cancel()
    await asyncio.wait({task})


async def test_an_event_is_about_the_pool(writing: Writing, kube: FakeKubeApi) -> None:
    await writing.tell(EMPTY)

    (event,) = await writing.events()
    (pool,) = await kube.objects(inference_pool(8000))
    assert event["involvedObject"] == {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "name": "pool",
        "namespace": "models",
        "uid": pool["metadata"]["uid"],
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Warning",
        "NoReadyEndpoints",
        "nobody is there",
        1,
    )
    assert event["source"]["component"] == "inference-endpoint-picker"
    assert writing.outcomes == ["written"]


async def test_the_same_reason_is_counted_on(writing: Writing) -> None:
    await writing.tell(EMPTY)
    await writing.tell(Note(type="Warning", reason=EMPTY.reason, message="nobody, again"))

    (event,) = await writing.events()
    assert (event["count"], event["message"]) == (2, "nobody, again")


async def test_what_is_told_while_another_is_written_is_one_event(writing: Writing) -> None:
    await writing.tell(EMPTY, BACK, EMPTY, BACK, EMPTY)

    found = {event["reason"]: event["count"] for event in await writing.events()}
    assert found == {"NoReadyEndpoints": 3, "EndpointsReady": 2}


async def test_after_a_while_the_same_reason_is_a_new_event(writing: Writing) -> None:
    await writing.tell(EMPTY)
    writing.now += module.SERIES_SECONDS
    await writing.tell(EMPTY)

    assert [event["count"] for event in await writing.events()] == [1, 1]


async def test_an_event_that_is_gone_is_written_anew(writing: Writing, kube: FakeKubeApi) -> None:
    await writing.tell(EMPTY)
    (event,) = await writing.events()
    await kube.delete({**event, "apiVersion": "v1", "kind": "Event"})
    await writing.tell(EMPTY)

    (event,) = await writing.events()
    assert event["count"] == 1


@pytest.mark.parametrize("resource", ["events", "inferencepools"])
async def test_once_they_are_forbidden_there_are_none(
    writing: Writing, kube: FakeKubeApi, resource: str
) -> None:
    kube.forbid("create", resource)
    kube.forbid("list", resource)

    with awaitable_logs() as lines:
        await writing.tell(EMPTY)
        kube.allow("create", resource)
        kube.allow("list", resource)
        writing.writer.tell(EMPTY)
        writing.writer.tell(BACK)
        seen = len(kube.seen)
        for _ in range(20):
            await asyncio.sleep(0)

    warnings = [lines.get_nowait() for _ in range(lines.qsize())]
    assert [each["event"] for each in warnings] == [
        "no Kubernetes Events: the rights of config/components/events are missing"
    ]
    assert len(kube.seen) == seen
    assert writing.outcomes == ["failed"]
    assert await writing.events() == []


@pytest.mark.parametrize("status", [404, 409, 429, 500])
async def test_what_can_not_be_written_is_let_go(
    writing: Writing, kube: FakeKubeApi, status: int
) -> None:
    kube.fail(status, resource="events", times=1)
    await writing.tell(EMPTY)
    await writing.tell(BACK)

    assert writing.outcomes == ["failed", "written"]
    assert [event["reason"] for event in await writing.events()] == ["EndpointsReady"]


async def test_an_api_server_that_is_away_costs_that_event_only(
    writing: Writing, kube: FakeKubeApi
) -> None:
    await kube.kill()
    await writing.tell(EMPTY)
    await kube.start()
    await writing.tell(BACK)

    assert writing.outcomes == ["failed", "written"]


async def test_without_a_pool_there_is_nothing_to_write_about(
    writing: Writing, kube: FakeKubeApi
) -> None:
    await kube.delete(inference_pool(8000))
    writing.writer.tell(EMPTY)
    await eventually(lambda: bool(kube.requests("list", "inferencepools")))
    await kube.create(inference_pool(8000))

    await writing.tell(BACK)

    assert [event["reason"] for event in await writing.events()] == ["EndpointsReady"]


async def test_a_long_message_is_cut(writing: Writing) -> None:
    await writing.tell(Note(reason="ConfigurationRejected", message="x" * 5000))

    (event,) = await writing.events()
    assert event["message"] == "x" * module.LONGEST_MESSAGE
