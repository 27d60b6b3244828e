"""gRPC clients of two families against the native transport; Go's is in the slow tier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.transport import interop
from tests.fakes.transport.grpc_clients import Grpcio, Grpclib
from tests.fakes.transport.interop import CALLS, COMPRESSED, Call, Client, Running, running_server


@pytest.fixture(params=[False, True], ids=["plaintext", "TLS"])
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    """A server with TLS and without."""
    async with running_server(with_tls=request.param) as server:
        yield server


@pytest.mark.parametrize("client", [Grpcio(), Grpclib()], ids=["grpcio", "grpclib"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_a_client_gets_what_it_has_to(running: Running, client: Client, call: Call) -> None:
    outcome = await client.make(running.port, call, running.pair)

    interop.check(call, outcome)
    if call.counted_as:
        await eventually(lambda: running.observer.codes == [call.counted_as])


async def test_compressed_messages_are_refused_by_name(running: Running) -> None:
    outcome = await Grpcio().make(running.port, COMPRESSED, running.pair)

    interop.check(COMPRESSED, outcome)


async def test_clients_of_both_families_talk_at_once(running: Running) -> None:
    calls = [call for call in CALLS.values() if call.end == "half-close"]
    clients: list[Client] = [Grpcio(), Grpclib()]

    async def one(client: Client, call: Call) -> None:
        interop.check(call, await client.make(running.port, call, running.pair))

    async with asyncio.TaskGroup() as group:
        for call in calls:
            for client in clients:
                group.create_task(one(client, call))
