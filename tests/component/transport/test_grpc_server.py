from __future__ import annotations

import asyncio
import socket

import grpc
import h2.connection
import h2.events
import pytest

from epp.transport import grpc_aio
from tests.fakes.eventually import eventually
from tests.fakes.transport.streams import (
    METHOD,
    SERVICE,
    CountingObserver,
    Opened,
    ServerFactory,
    Serving,
    SilentHandler,
    TellingHandler,
    read_all,
    stream_server,
)

HEADERS = [
    (":method", "POST"),
    (":path", f"/{SERVICE}/{METHOD}"),
    (":scheme", "http"),
    (":authority", "test"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
]


async def test_stopping_waits_for_open_streams_within_its_grace(serving: Serving) -> None:
    observer = CountingObserver()
    opened = Opened(SilentHandler)
    async with serving(opened, observer=observer) as client:
        call = client.open()
        await call.write(b"question")
        handler = await opened.next()
        await handler.events.get()

        stopping = asyncio.create_task(client.server.stop(30))
        await call.write(b"more")
        assert await handler.events.get() == b"more"
        handler.outlet.send((b"answer",))
        handler.outlet.close()

        assert await read_all(call) == [b"answer"]
        await stopping
    assert observer.codes == ["OK"]


async def test_a_server_that_never_started_stops(make_server: ServerFactory) -> None:
    await make_server(TellingHandler).stop(0)


async def test_methods_other_than_the_one_served_are_unimplemented(
    make_server: ServerFactory,
) -> None:
    server = make_server(TellingHandler)
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream("/other/Method")()
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
    await server.stop(0)


async def test_a_gateway_may_ping_as_often_as_it_likes(make_server: ServerFactory) -> None:
    server = make_server(TellingHandler)
    port = await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    acknowledged = 0

    for number in range(20):
        connection.ping(number.to_bytes(8, "big"))
        writer.write(connection.data_to_send())
        while acknowledged <= number:
            for event in connection.receive_data(await reader.read(65_536)):
                assert not isinstance(event, h2.events.ConnectionTerminated)
                acknowledged += isinstance(event, h2.events.PingAckReceived)

    writer.close()
    await writer.wait_closed()
    await server.stop(0)


async def test_streams_of_a_gateway_that_does_not_answer_pings_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_aio, "_KEEPALIVE_PAUSE_MS", 50)
    monkeypatch.setattr(grpc_aio, "_KEEPALIVE_TIMEOUT_MS", 50)
    opened = Opened(SilentHandler)
    server = stream_server(opened)
    port = await server.start()
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    connection.send_headers(1, HEADERS)
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(connection.data_to_send())  # what comes back is never read

        handler = await opened.next()
        assert await handler.events.get() == "disconnect"

    await server.stop(0)


async def test_streams_that_come_while_the_event_loop_is_busy_are_all_served() -> None:
    observer = CountingObserver()
    server = stream_server(TellingHandler, observer=observer)
    port = await server.start()
    many = 3500
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    with socket.create_connection(("127.0.0.1", port)) as peer:
        # No await from here to the ping's answer: the loop has taken none of the streams by then.
        for number in range(many):
            connection.send_headers(2 * number + 1, HEADERS, end_stream=True)
            peer.sendall(connection.data_to_send())
        connection.ping(b"received")
        peer.sendall(connection.data_to_send())
        acknowledged = False
        while not acknowledged:
            for event in connection.receive_data(peer.recv(65_536)):
                acknowledged |= isinstance(event, h2.events.PingAckReceived)
        assert observer.opened == 0

        await eventually(lambda: len(observer.codes) == many)

    assert set(observer.codes) == {"OK"}
    await server.stop(0)


async def test_a_connection_over_the_limit_is_closed_and_one_that_ends_makes_room() -> None:
    server = stream_server(TellingHandler, max_connections=2)
    port = await server.start()
    greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])

    async def greeted() -> tuple[asyncio.StreamWriter, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(greeting)
        try:
            return writer, await reader.read(9)
        except ConnectionError:
            return writer, b""

    first, second, third = [await greeted() for _ in range(3)]
    assert first[1]
    assert second[1]
    assert not third[1]

    first[0].transport.abort()
    fourth = await greeted()
    while not fourth[1]:
        fourth[0].transport.abort()
        fourth = await greeted()

    for writer, _ in (second, third, fourth):
        writer.transport.abort()
    await server.stop(0)
