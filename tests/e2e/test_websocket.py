"""WebSocket sessions, as of /v1/realtime, through a real Envoy that we configured."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from epp.standalone.envoy_clusters import Address
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

PATH = "/v1/realtime?model=m"
SERVED = "x-gateway-destination-endpoint-served"
IN_FLIGHT = "epp_requests_in_flight"

both_modes = pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])


@pytest.fixture
async def model_server() -> AsyncIterator[Address]:
    """Gives back each message, and speaks first."""

    async def talk(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("session.created")
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket

    application = web.Application()
    application.router.add_get("/v1/realtime", talk)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield Address("127.0.0.1", runner.addresses[0][1])
    await runner.cleanup()


async def make(make_stack: MakeStack, *servers: Address, fail_open: bool) -> Stack:
    return await asyncio.to_thread(make_stack, servers=servers, fail_open=fail_open)


@both_modes
async def test_a_session_goes_both_ways_and_outlives_its_picker(
    make_stack: MakeStack, model_server: Address, fail_open: bool
) -> None:
    stack = await make(make_stack, model_server, fail_open=fail_open)

    async with (
        aiohttp.ClientSession(stack.url) as client,
        client.ws_connect(PATH) as session,
    ):
        assert await session.receive_str() == "session.created"
        await session.send_bytes(b"audio" * 20_000)
        assert await session.receive_bytes() == b"audio" * 20_000
        page = await asyncio.to_thread(stack.picker.metrics)
        assert 'epp_responses_total{code_class="1xx"} 1' in page
        await asyncio.to_thread(stack.picker.kill)
        await session.send_bytes(b"more")
        assert await session.receive_bytes() == b"more"


@both_modes
async def test_a_handshake_without_a_picker_goes_by_the_failure_mode(
    make_stack: MakeStack, model_server: Address, fail_open: bool
) -> None:
    stack = await make(make_stack, model_server, fail_open=fail_open)
    await asyncio.to_thread(stack.picker.kill)

    async with aiohttp.ClientSession(stack.url) as client:
        if fail_open:
            async with client.ws_connect(PATH) as session:
                assert await session.receive_str() == "session.created"
        else:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(PATH)
            assert refused.value.status == 503


async def test_an_endpoint_is_picked_for_each_session(
    make_stack: MakeStack, model_server: Address
) -> None:
    stack = await make(make_stack, model_server, fail_open=False)

    async with aiohttp.ClientSession(stack.url) as client:
        sessions = [await client.ws_connect(PATH) for _ in range(3)]
        assert [await each.receive_str() for each in sessions] == ["session.created"] * 3
        for each in sessions:
            await each.close()

    attempts = 'llm_d_epp_scheduler_attempts_total{status="success"'
    page = await asyncio.to_thread(stack.picker.metrics)
    (line,) = [each for each in page.splitlines() if each.startswith(attempts)]
    assert line.endswith(" 3")
    await asyncio.to_thread(
        wait_until, lambda: stack.picker.value_of(IN_FLIGHT) == 0, "nothing in flight"
    )
