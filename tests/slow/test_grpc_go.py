"""grpc-go as a client of the native transport."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.transport import interop
from tests.fakes.transport.grpc_go import GrpcGo
from tests.fakes.transport.interop import CALLS, COMPRESSED, Call, Running, running_server
from tests.fakes.transport.streams import CountingObserver

pytestmark = pytest.mark.slow
ALL = CALLS | {"compressed messages": COMPRESSED}


@pytest.fixture(scope="module")
def client() -> GrpcGo:
    """The client, built when it is missing."""
    return GrpcGo()


@pytest.fixture(params=[False, True], ids=["plaintext", "TLS"])
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    """A server with TLS and without."""
    async with running_server(with_tls=request.param) as server:
        yield server


@pytest.mark.parametrize("call", ALL.values(), ids=ALL.keys())
async def test_go_gets_what_it_has_to(running: Running, client: GrpcGo, call: Call) -> None:
    outcome = await client.make(running.port, call, running.pair)

    interop.check(call, outcome)
    if call.counted_as:
        await eventually(lambda: running.observer.codes == [call.counted_as])


async def test_calls_of_many_connections_do_not_disturb_each_other(
    running: Running, client: GrpcGo
) -> None:
    calls = list(ALL.values()) * 5

    connections = await client.make_all(running.port, calls, running.pair, connections=8)

    for outcomes in connections:
        for call, outcome in zip(calls, outcomes, strict=True):
            interop.check(call, outcome)


async def test_a_server_that_stops_loses_none_of_the_calls_it_took(client: GrpcGo) -> None:
    observer = CountingObserver()
    server = interop.server(None, observer)
    port = await server.start()
    long = Call(steps=(b"flood", 40) * 40, answers=(*[bytes(10_000)] * 1600, interop.DONE))

    calling = asyncio.create_task(client.make_all(port, [long] * 4, None, connections=4))
    await eventually(lambda: observer.opened == 16)
    await server.stop(60)

    for outcomes in await calling:
        for outcome in outcomes:
            interop.check(long, outcome)
    assert Counter(observer.codes) == {"OK": 16}
