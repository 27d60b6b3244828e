from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from epp.standalone.envoy_clusters import Address
from epp.standalone.readiness import NotReady, envoy_is_live, models_through


@asynccontextmanager
async def serving(
    path: str, answer: Callable[[web.Request], Awaitable[web.Response]]
) -> AsyncIterator[Address]:
    app = web.Application()
    app.router.add_get(path, answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield Address("127.0.0.1", runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def test_models_are_those_of_the_first_answer_that_is_no_failure() -> None:
    statuses = iter([503, 502, 200])

    names = set()

    async def answer(request: web.Request) -> web.Response:
        names.add(request.headers["x-request-id"])
        return web.json_response({"data": [{"id": "m1"}, {"id": "m2"}]}, status=next(statuses))

    async with serving("/v1/models", answer) as address:
        models = await models_through(address, timeout_seconds=30)

    assert models == ["m1", "m2"]
    assert names == {"epp-standalone"}
    assert list(statuses) == []


async def test_a_server_that_wants_a_key_is_ready_without_telling_models() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=401, text="who are you?")

    async with serving("/v1/models", answer) as address:
        assert await models_through(address, timeout_seconds=30) == []


async def test_the_last_complaint_is_told_when_time_is_up() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=503, text="no healthy upstream")

    async with serving("/v1/models", answer) as address:
        with pytest.raises(NotReady, match="answered with 503 no healthy upstream"):
            await models_through(address, timeout_seconds=0.3)


async def test_a_port_nobody_listens_on_is_not_ready() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", unused.getsockname()[1])

        with pytest.raises(NotReady, match="Cannot connect"):
            await envoy_is_live(address, timeout_seconds=0.3)


async def test_envoy_is_live_once_it_says_so() -> None:
    answers = iter([(503, "PRE_INITIALIZING"), (200, "LIVE")])

    async def answer(request: web.Request) -> web.Response:
        status, text = next(answers)
        return web.Response(status=status, text=text)

    async with serving("/ready", answer) as address:
        await envoy_is_live(address, timeout_seconds=30)

    assert list(answers) == []
