"""Streams that end, or go on, as nobody likes it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc

from tests.fakes.transport.relay import relay_to
from tests.soak.gateway import STAGES, Gateway, Way, reach
from tests.soak.ledger import DISCONNECT, ERROR
from tests.soak.talks import LARGE_CHUNK, Talk, open_channel

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_HTTP2 = (b"", PREFACE, PREFACE + b"\xff" * 100, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
SILENT_SECONDS = 12.0
"""Longer than a model server may be silent before that counts as an error of its own."""
SLOW_CHUNKS = 60
"""Of 13 KiB: more than any window."""


def cancelled(stage: int) -> Way:
    """The client goes away at a stage."""

    async def way(gateway: Gateway) -> None:
        talk = gateway.talk()
        if await reach(talk, stage, gateway):
            gateway.ledger.ended(DISCONNECT)
        talk.cancel()

    return way


async def cancelled_while_picked(gateway: Gateway) -> None:
    """The client goes away when its request is complete, and reads nothing."""
    talk = gateway.talk()
    await talk.headers()
    await talk.pieces(gateway.body(), end=True)
    talk.cancel()
    gateway.ledger.unclear += 1


def half_closed(stage: int) -> Way:
    """The gateway sends no more from a stage on."""

    async def way(gateway: Gateway) -> None:
        talk = gateway.talk()
        has_endpoint = await reach(talk, stage, gateway)
        await talk.half_close()
        if has_endpoint:
            gateway.ledger.ended(DISCONNECT)
            await talk.ends_with(grpc.StatusCode.OK)
        else:
            await talk.ends_with(grpc.StatusCode.CANCELLED)

    return way


def garbled(stage: int) -> Way:
    """What comes next makes no sense."""

    async def way(gateway: Gateway) -> None:
        talk = gateway.talk()
        if stage >= 0 and await reach(talk, stage, gateway):
            gateway.ledger.ended(ERROR)
        if stage == 3 and gateway.rng.random() < 0.5:
            await talk.headers()
        else:
            await talk.send(gateway.rng.choice((b"\xff" * 50, b"", b"\x0a\x05ab")))
        await talk.ends_with(grpc.StatusCode.INVALID_ARGUMENT)

    return way


async def connection_closed(gateway: Gateway) -> None:
    """A gateway ends with a stream at every stage."""
    channel = open_channel(gateway.port)
    await _reach_every_stage(channel, gateway)
    await channel.close()


def connection_broken(*, reset: bool) -> Way:
    """The connection goes, with a stream at every stage."""

    async def way(gateway: Gateway) -> None:
        async with relay_to(gateway.port) as relay:
            channel = open_channel(relay.port)
            await _reach_every_stage(channel, gateway)
            relay.break_all(reset=reset)
            await channel.close()

    return way


async def _reach_every_stage(channel: grpc.aio.Channel, gateway: Gateway) -> None:
    for stage in range(len(STAGES)):
        if await reach(gateway.talk(channel), stage, gateway):
            gateway.ledger.ended(DISCONNECT)


async def read_slowly(gateway: Gateway) -> None:
    """The gateway reads a large response in its own time."""
    talk = gateway.talk()
    await talk.request(gateway.body())
    await talk.respond()
    async with asyncio.TaskGroup() as group:
        group.create_task(_send_chunks(talk))
        for _ in range(SLOW_CHUNKS):
            await talk.read()
            await asyncio.sleep(0.02)  # its time
    await talk.finish()


async def stopped_reading(gateway: Gateway) -> None:
    """The gateway reads no more of a large response, and goes away."""
    talk = gateway.talk()
    await talk.request(gateway.body())
    await talk.respond()
    writer = asyncio.create_task(_send_chunks(talk))
    await talk.read()
    await asyncio.sleep(2)  # the windows fill
    gateway.ledger.ended(DISCONNECT)
    talk.cancel()
    writer.cancel()
    await asyncio.wait((writer,))


async def _send_chunks(talk: Talk) -> None:
    for _ in range(SLOW_CHUNKS):
        await talk.say("response_body", body=LARGE_CHUNK)


async def silent_after_pick(gateway: Gateway) -> None:
    """The model server never answers, until the client gives up."""
    talk = gateway.talk()
    await talk.request(gateway.body())
    await asyncio.sleep(SILENT_SECONDS)  # the patience of a client
    gateway.ledger.ended(DISCONNECT)
    talk.cancel()


async def no_http2(gateway: Gateway) -> None:
    """A connection on which no HTTP/2 is spoken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    with suppress(ConnectionError, TimeoutError):
        writer.write(gateway.rng.choice(NO_HTTP2))
        await writer.drain()
        async with asyncio.timeout(2):
            await reader.read()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
