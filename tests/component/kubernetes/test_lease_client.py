"""A Lease over HTTP, against a server that keeps versions as an API server does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from epp.kubernetes.client import KubeClient
from epp.kubernetes.leader_election import ElectionTiming, LeaderElector
from epp.kubernetes.lease import LeaseError, LeaseRecord
from epp.kubernetes.lease_client import KubeLease
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.access import plain_client
from tests.fakes.kubernetes.scripted import client_of

PATH = "/apis/coordination.k8s.io/v1/namespaces/models/leases"
NAME = "epp-models-my-pool.llm-d.ai"
RECORD = LeaseRecord(
    holder="a",
    duration_seconds=15,
    acquire_time="2026-01-01T00:00:00.000000Z",
    renew_time="2026-01-01T00:00:02.000000Z",
    transitions=1,
)


class LeaseApi:
    """The leases of one namespace."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.refusal: tuple[int, dict[str, Any]] | None = None
        self.text: str | None = None
        self._version = 0

    async def answer(self, request: web.Request) -> web.Response:
        if self.refusal is not None:
            return web.json_response(self.refusal[1], status=self.refusal[0])
        if self.text is not None:
            return web.Response(text=self.text)
        if request.method == "GET":
            return self._found() if self.lease else _status(404, "NotFound", "no such lease")
        body = await request.json()
        if request.method == "POST":
            if self.lease is not None:
                return _status(409, "AlreadyExists", "there is one")
        elif self.lease is None or _version(body) != _version(self.lease):
            return _status(409, "Conflict", "the object has been modified")
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.lease = body
        return self._found()

    def _found(self) -> web.Response:
        return web.json_response(self.lease)


def _version(lease: dict[str, Any]) -> object:
    return lease["metadata"].get("resourceVersion")


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


@asynccontextmanager
async def serving(api: LeaseApi) -> AsyncIterator[KubeClient]:
    application = web.Application()
    application.router.add_post(PATH, api.answer)
    application.router.add_get(f"{PATH}/{NAME}", api.answer)
    application.router.add_put(f"{PATH}/{NAME}", api.answer)
    async with client_of(application) as client:
        yield client


@pytest.fixture
def api() -> LeaseApi:
    return LeaseApi()


@pytest.fixture
async def client(api: LeaseApi) -> AsyncIterator[KubeClient]:
    async with serving(api) as client:
        yield client


@pytest.fixture
def lease(client: KubeClient) -> KubeLease:
    return KubeLease(client, namespace="models", name=NAME)


async def test_a_lease_is_created_where_there_is_none_and_read_back(lease: KubeLease) -> None:
    assert await lease.read() is None

    await lease.write(RECORD, over=None)

    found = await lease.read()
    assert found is not None
    assert found.record == RECORD


async def test_a_lease_is_replaced_and_keeps_what_others_put_there(
    api: LeaseApi, lease: KubeLease
) -> None:
    await lease.write(RECORD, over=None)
    assert api.lease is not None
    api.lease["metadata"]["labels"] = {"team": "inference"}
    api.lease["spec"]["strategy"] = "OldestEmulationVersion"
    found = await lease.read()

    await lease.write(LeaseRecord(holder="b", duration_seconds=1), over=found)

    assert api.lease["spec"]["holderIdentity"] == "b"
    assert api.lease["spec"]["strategy"] == "OldestEmulationVersion"
    assert api.lease["metadata"]["labels"] == {"team": "inference"}
    assert api.lease["metadata"]["name"] == NAME


async def test_of_two_writers_that_read_the_same_version_one_is_refused(lease: KubeLease) -> None:
    await lease.write(RECORD, over=None)
    found = await lease.read()
    await lease.write(replace(RECORD, holder="b"), over=found)

    with pytest.raises(LeaseError, match=f"update lease {NAME}: 409 Conflict"):
        await lease.write(RECORD, over=found)


async def test_of_two_that_create_one_is_refused(lease: KubeLease) -> None:
    await lease.write(RECORD, over=None)

    with pytest.raises(LeaseError, match=f"create lease {NAME}: 409 AlreadyExists"):
        await lease.write(RECORD, over=None)


@pytest.mark.parametrize(
    "spec", [None, {}, {"holderIdentity": None}], ids=["null", "empty", "no holder"]
)
async def test_a_lease_without_a_holder_is_free(api: LeaseApi, lease: KubeLease, spec: Any) -> None:
    api.lease = {"metadata": {"name": NAME, "resourceVersion": "7"}, "spec": spec}

    found = await lease.read()

    assert found is not None
    assert found.record == LeaseRecord()
    await lease.write(RECORD, over=found)


async def test_a_refusal_names_verb_and_lease(api: LeaseApi, lease: KubeLease) -> None:
    api.refusal = 403, {"reason": "Forbidden", "message": "may not get leases"}

    with pytest.raises(LeaseError, match=f"get lease {NAME}: 403 Forbidden: may not get leases"):
        await lease.read()


@pytest.mark.parametrize("text", ["<html>", "[]", '{"spec": {"leaseDurationSeconds": "x"}}'])
async def test_nonsense_in_place_of_a_lease_is_an_error(
    api: LeaseApi, lease: KubeLease, text: str
) -> None:
    api.text = text

    with pytest.raises(LeaseError, match="can't be read"):
        await lease.read()


async def test_a_server_that_is_away_is_an_error() -> None:
    async with serving(LeaseApi()) as client:
        pass
    client = plain_client(client.server)

    with pytest.raises(LeaseError):
        await KubeLease(client, namespace="models", name=NAME).read()
    await client.close()


async def test_replicas_hand_the_lead_over_when_one_shuts_down(
    api: LeaseApi, client: KubeClient
) -> None:
    quick = ElectionTiming(lease=15, renew_deadline=10, retry=0.01)
    told: list[str] = []

    def candidate(name: str) -> LeaderElector:
        return LeaderElector(
            KubeLease(client, namespace="models", name=NAME),
            on_change=lambda leads: told.append(f"{name} {'leads' if leads else 'does not'}"),
            identity=name,
            timing=quick,
            rng=random.Random(name),
        )

    first = asyncio.create_task(candidate("a").run())
    await eventually(lambda: told == ["a leads"])
    second = asyncio.create_task(candidate("b").run())
    first.cancel()
    await asyncio.wait({first})
    await eventually(lambda: told == ["a leads", "a does not", "b leads"])

    assert api.lease is not None
    assert api.lease["spec"]["leaseTransitions"] == 2
    second.cancel()
    await asyncio.wait({second})
