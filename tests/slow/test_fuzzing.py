"""Fuzzing of the native transport, from recorded conversations on.

`EPP_FUZZ_SECONDS` says how long; `EPP_FUZZ_SEED` repeats a run. An input that breaks something is
saved to the corpus, which the fast tier plays.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from random import Random

import grpc
import pytest

from tests.fakes.eventually import eventually
from tests.fakes.transport.native_streams import PATH, native_server
from tests.fakes.transport.streams import CountingObserver
from tests.h2.conversations import Input, recorded, save
from tests.h2.mutations import mutated
from tests.h2.playing import LIMITS, Chaotic, play, without_logs

SECONDS = float(os.environ.get("EPP_FUZZ_SECONDS", "20"))
SEED = os.environ.get("EPP_FUZZ_SEED") or secrets.token_hex(4)
LARGEST_ON_A_SOCKET = 100_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 180)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with without_logs():
        yield


def test_no_input_breaks_a_connection() -> None:
    print(f"EPP_FUZZ_SEED={SEED}")
    conversations = recorded()
    end = time.monotonic() + SECONDS * 3 / 4
    for number in count():
        given = mutated(conversations, number, SEED)
        try:
            play(given)
        except Exception as error:
            path = save(given)
            raise AssertionError(f"input {number} of seed {SEED}, saved as {path}") from error
        if time.monotonic() > end:
            print(f"{number + 1} inputs")
            return


async def test_no_input_breaks_a_server() -> None:
    print(f"EPP_FUZZ_SEED={SEED}")
    escaped: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
    observer = CountingObserver()
    server = native_server(Chaotic, connection_limits=LIMITS, observer=observer)
    port = await server.start()
    conversations = recorded()
    end = time.monotonic() + SECONDS / 4
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        neighbour: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(PATH)()
        for number in count():
            given = mutated(conversations, number, f"{SEED} on a socket")
            if len(given.content) <= LARGEST_ON_A_SOCKET:
                await _throw(port, given)
                await neighbour.write(b"hello")
                assert await neighbour.read() == b"hello", f"input {number} of seed {SEED}"
                assert await neighbour.read() == b""
                assert not escaped, f"input {number} of seed {SEED}"
            if time.monotonic() > end:
                print(f"{number + 1} inputs")
                break
        await neighbour.done_writing()
        assert await neighbour.code() is grpc.StatusCode.OK
    await eventually(lambda: server.open_streams == 0)
    assert server.held_bytes == 0
    assert observer.opened == len(observer.codes)
    await server.stop(0)


async def _throw(port: int, given: Input) -> None:
    """Send it in pieces on a connection of its own, read some, and leave in one way or another."""
    random = Random(given.schedule)
    loop = asyncio.get_running_loop()
    with socket.socket() as client, suppress(ConnectionError):
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        at = 0
        while at < len(given.content):
            size = random.choice((1, 30, 1000, 70_000))
            await loop.sock_sendall(client, given.content[at : at + size])
            at += size
            with suppress(BlockingIOError):
                client.recv(random.choice((100, 100_000)))
        if random.random() < 0.5:
            client.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(client, 65_536):
                pass
