from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from epp.simulator.failures import Failures
from epp.simulator.server import RunningSimulator, serve
from epp.simulator.settings import SimulatorSettings
from tests.fakes.virtual_clock import VirtualClock

Until = Callable[[Callable[[], bool]], Awaitable[None]]

BODY = {"model": "simulated-model", "prompt": "hello", "max_tokens": 10, "stream": True}


async def _break(
    http: aiohttp.ClientSession, simulator: RunningSimulator, **switches: object
) -> None:
    async with http.post(f"{simulator.url}/simulator/failures", json=switches) as response:
        assert response.status == 200


async def _status(http: aiohttp.ClientSession, simulator: RunningSimulator) -> int:
    async with http.post(f"{simulator.url}/v1/completions", json=BODY) as response:
        await response.read()
        return response.status


async def test_inference_fails_with_the_status_until_the_switch_is_off(
    http: aiohttp.ClientSession, simulator: RunningSimulator
) -> None:
    await _break(http, simulator, status=503)
    async with http.post(f"{simulator.url}/v1/completions", json=BODY) as response:
        broken = response.status, await response.json()
    async with http.get(f"{simulator.url}/health") as response:
        health = response.status
    await _break(http, simulator)

    assert broken == (
        503,
        {
            "error": {
                "message": "The simulator was told to fail.",
                "type": "ServiceUnavailableError",
                "param": None,
                "code": 503,
            }
        },
    )
    assert health == 200
    assert await _status(http, simulator) == 200


async def test_a_stalled_request_is_never_answered_while_others_are(
    http: aiohttp.ClientSession, simulator: RunningSimulator
) -> None:
    arrived = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        arrived.set()  # the server said 100 Continue, so it has the request
        yield json.dumps(BODY).encode()

    async def ask() -> None:
        url = f"{simulator.url}/v1/completions"
        async with http.post(url, data=body(), expect100=True) as response:
            await response.read()

    await _break(http, simulator, stall=True)
    stalled = asyncio.create_task(ask())
    await arrived.wait()

    await _break(http, simulator)
    assert await _status(http, simulator) == 200

    assert not stalled.done()
    stalled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stalled


@pytest.mark.parametrize("events", [0, 3])
async def test_a_stream_is_cut_after_so_many_events(
    http: aiohttp.ClientSession, simulator: RunningSimulator, events: int
) -> None:
    await _break(http, simulator, cut_stream_after=events)
    received = bytearray()

    async def read() -> None:
        async with http.post(f"{simulator.url}/v1/completions", json=BODY) as response:
            async for chunk in response.content.iter_any():
                received.extend(chunk)

    with pytest.raises(aiohttp.ClientPayloadError):
        await read()

    assert received.count(b"data: ") == events
    assert simulator.engine.running == 0


async def test_metrics_are_slow_and_inference_is_not(
    http: aiohttp.ClientSession, until: Until
) -> None:
    clock = VirtualClock()
    settings = SimulatorSettings(port=0, failures=Failures(slow_metrics_seconds=5))
    async with serve(settings, clock) as simulator:

        async def scrape() -> int:
            async with http.get(f"{simulator.url}/metrics") as response:
                return response.status

        scraping = asyncio.create_task(scrape())
        await until(lambda: clock.sleepers == 1)
        assert await _status(http, simulator) == 200
        assert not scraping.done()

        await clock.advance(5)

        assert await scraping == 200


async def test_a_rate_breaks_a_share_of_the_requests(
    http: aiohttp.ClientSession, simulator: RunningSimulator
) -> None:
    await _break(http, simulator, status=500, rate=50)

    statuses = {await _status(http, simulator) for _ in range(40)}

    assert statuses == {200, 500}


async def test_switches_can_be_read_and_bad_ones_change_nothing(
    http: aiohttp.ClientSession, simulator: RunningSimulator
) -> None:
    url = f"{simulator.url}/simulator/failures"
    await _break(http, simulator, status=529)
    messages = []
    for bad in ({"status": 200}, {"stal": True}, {"rate": "all"}):
        async with http.post(url, json=bad) as response:
            assert response.status == 400
            messages.append((await response.json())["error"]["message"])

    assert messages == [
        "body: status: 200 is not allowed; allowed is 400 to 599",
        "body: Object contains unknown field `stal`",
        "body: Expected `float`, got `str` - at `$.rate`",
    ]
    async with http.get(url) as response:
        assert await response.json() == {
            "status": 529,
            "stall": False,
            "cut_stream_after": None,
            "slow_metrics_seconds": 0.0,
            "rate": 100.0,
        }
