from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import os
import signal
import sys
import zlib
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from epp.simulator.server import RunningSimulator, serve
from epp.simulator.settings import SimulatorSettings
from tests.fakes.virtual_clock import VirtualClock

Until = Callable[[Callable[[], bool]], Awaitable[None]]

BODY = {"model": "simulated-model", "prompt": "hello", "max_tokens": 10}
COMMAND = (
    "import argparse, sys; from epp.simulator.arguments import add_arguments, run_command;"
    "parser = argparse.ArgumentParser(); add_arguments(parser);"
    "sys.exit(run_command(parser.parse_args()))"
)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_its_slot_for_the_next(
    http: aiohttp.ClientSession, until: Until, stream: bool
) -> None:
    clock = VirtualClock()
    settings = SimulatorSettings(
        port=0, max_num_seqs=1, time_to_first_token=1.0, inter_token_latency=1.0
    )
    async with serve(settings, clock) as simulator:

        async def ask() -> int:
            url = f"{simulator.url}/v1/completions"
            async with http.post(url, json={**BODY, "stream": stream}) as response:
                await response.read()
                return response.status

        leaving = asyncio.create_task(ask())
        await until(lambda: simulator.engine.running == 1)
        staying = asyncio.create_task(ask())
        await until(lambda: simulator.engine.waiting == 1)

        leaving.cancel()
        await until(lambda: simulator.engine.waiting == 0)
        await until(lambda: clock.sleepers == 1)

        assert simulator.engine.running == 1
        assert simulator.engine.counters.finished["abort"] == 1
        await clock.advance(100)
        assert await staying == 200


async def test_a_full_queue_is_answered_with_429(http: aiohttp.ClientSession, until: Until) -> None:
    clock = VirtualClock()
    settings = SimulatorSettings(
        port=0, max_num_seqs=1, max_waiting_queue_length=0, time_to_first_token=1.0
    )
    async with serve(settings, clock) as simulator:

        async def ask() -> int:
            async with http.post(f"{simulator.url}/v1/completions", json=BODY) as response:
                await response.read()
                return response.status

        running = asyncio.create_task(ask())
        await until(lambda: clock.sleepers == 1)

        assert await ask() == 429
        await clock.advance(1)
        assert await running == 200


@pytest.mark.parametrize("path", ["/echo", "/echo/any/path?query=1"])
async def test_echo_returns_the_same_bytes_and_tells_what_it_got(
    http: aiohttp.ClientSession, simulator: RunningSimulator, path: str
) -> None:
    sent = os.urandom(3_000_000)

    async with http.post(
        simulator.url + path,
        data=io.BytesIO(sent),
        headers={"content-type": "image/png", "X-Mine": "1"},
    ) as response:
        received = await response.read()

    assert received == sent
    assert response.content_type == "image/png"
    assert response.headers["x-echo-length"] == "3000000"
    assert response.headers["x-echo-sha256"] == hashlib.sha256(sent).hexdigest()
    names = json.loads(response.headers["x-echo-headers"])
    assert {"content-type", "x-mine"} <= set(names)


async def test_echo_leaves_compressed_bytes_alone(
    http: aiohttp.ClientSession, simulator: RunningSimulator
) -> None:
    sent = gzip.compress(b"hello")

    async with http.post(
        f"{simulator.url}/echo", data=sent, headers={"content-encoding": "gzip"}
    ) as response:
        assert await response.read() == sent


@pytest.mark.parametrize(
    ("compress", "encoding"),
    [(gzip.compress, "gzip"), (zlib.compress, "deflate"), (bytes, "identity")],
)
async def test_request_bodies_may_be_compressed(
    http: aiohttp.ClientSession,
    simulator: RunningSimulator,
    compress: Callable[[bytes], bytes],
    encoding: str,
) -> None:
    async with http.post(
        f"{simulator.url}/v1/completions",
        data=compress(json.dumps(BODY).encode()),
        headers={"content-encoding": encoding},
    ) as response:
        answer = await response.json()

    assert answer["usage"]["completion_tokens"] == 10


async def test_a_prompt_of_megabytes_is_read(
    http: aiohttp.ClientSession, simulator: RunningSimulator
) -> None:
    body = json.dumps({**BODY, "prompt": "p" * 4_000_000}).encode()

    async with http.post(f"{simulator.url}/v1/completions", data=io.BytesIO(body)) as response:
        answer = await response.json()

    assert answer["usage"]["prompt_tokens"] == 1_000_000


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("completions", b"", "body: Input data was truncated"),
        ("completions", b"\x1f\x8bnot gzip", "body: Error -3 while decompressing data"),
        ("completions", b'{"model": 3}', "body: Expected `str`, got `int` - at `$.model`"),
        ("completions", b'{"model": "simulated-model", "prompt": []}', "prompt: [] is empty"),
        ("completions", b'{"model": "simulated-model", "prompt": ["a", 1]}', "can't be mixed"),
        ("chat/completions", b'{"model": "m", "messages": []}', "length >= 1 - at `$.messages`"),
        ("messages", b'{"model": "m", "messages": [{"role": "user"}]}', "field `max_tokens`"),
        (
            "chat/completions",
            b'{"model": "m", "messages": [{"role": "user"}], "max_tokens": 0}',
            "Expected `int` >= 1 - at `$.max_tokens`",
        ),
    ],
)
async def test_a_malformed_body_is_400_and_says_where(
    http: aiohttp.ClientSession, simulator: RunningSimulator, path: str, body: bytes, message: str
) -> None:
    async with http.post(f"{simulator.url}/v1/{path}", data=body) as response:
        answer = await response.json()

    assert response.status == 400
    assert message in answer["error"]["message"]


async def test_every_answer_names_the_server(http: aiohttp.ClientSession) -> None:
    async with (
        serve(SimulatorSettings(port=0)) as unnamed,
        serve(SimulatorSettings(port=0, name="one")) as named,
    ):
        for path in ("/health", "/health/ready", "/ping", "/metrics", "/v1/models", "/nowhere"):
            async with (
                http.get(unnamed.url + path) as first,
                http.get(named.url + path) as second,
            ):
                assert first.status == (404 if path == "/nowhere" else 200)
                assert first.headers["x-simulator"] == unnamed.address
                assert second.headers["x-simulator"] == "one"


async def test_open_streams_are_cut_when_the_server_ends(
    http: aiohttp.ClientSession, until: Until
) -> None:
    clock = VirtualClock()
    async with serve(SimulatorSettings(port=0, time_to_first_token=1.0), clock) as simulator:
        response = await http.post(f"{simulator.url}/v1/completions", json={**BODY, "stream": True})
        await until(lambda: clock.sleepers == 1)

    with pytest.raises(aiohttp.ClientPayloadError):
        await response.read()
    assert simulator.engine.running == 0


@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT", "end of input"])
async def test_the_process_says_when_it_is_ready_and_ends_with_open_streams(
    http: aiohttp.ClientSession, end: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMAND, "--port=0", "--exit-with-parent"),
        "--inter-token-latency=1h",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        assert line.startswith("simulator ready on http://127.0.0.1:")
        body = {**BODY, "stream": True}
        response = await http.post(f"{line.split()[-1]}/v1/completions", json=body)
        await response.content.readuntil(b"\n\n")

        if end == "end of input":
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[end])

        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
        _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_a_taken_port_ends_the_process_with_1(simulator: RunningSimulator) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMAND, f"--port={simulator.port}"),
        stderr=asyncio.subprocess.PIPE,
    )

    _, errors = await process.communicate()

    assert process.returncode == 1
    assert b"can't listen on 127.0.0.1" in errors
