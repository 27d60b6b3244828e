from __future__ import annotations

import asyncio

from epp.kubernetes.connections import Connections
from epp.kubernetes.sockets import Sockets


class SlowApi:
    """An `ApiClient` whose calls answer when they are let, and fail once it is closed."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.closed = 0

    async def call_api(self, path: str, method: str) -> str:
        await self.may_answer.wait()
        assert not self.closed
        return f"{method} {path}"

    async def close(self) -> None:
        self.closed += 1


async def test_calls_under_way_go_on_when_their_connections_are_retired() -> None:
    api = SlowApi()
    connections = Connections(api, Sockets())
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(connections.call(path, "GET")) for path in ("/a", "/b")]
        await asyncio.sleep(0)

        await connections.retire()
        assert api.closed == 0
        api.may_answer.set()

    assert [call.result() for call in calls] == ["GET /a", "GET /b"]
    assert api.closed == 1


async def test_the_last_call_closes_retired_connections_also_when_it_is_cancelled() -> None:
    api = SlowApi()
    connections = Connections(api, Sockets())
    call = asyncio.create_task(connections.call("/a", "GET"))
    await asyncio.sleep(0)
    await connections.retire()

    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    assert api.closed == 1


async def test_retired_connections_that_nobody_uses_are_closed_at_once() -> None:
    api = SlowApi()

    await Connections(api, Sockets()).retire()

    assert api.closed == 1
