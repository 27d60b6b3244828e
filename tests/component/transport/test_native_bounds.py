"""What peers may not do for ever, or all at once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import grpc
import pytest
from structlog.testing import capture_logs

from epp.transport.crowding import ConnectionLimit, HandshakeLimits
from epp.transport.native.frames import GOAWAY, PREFACE, SETTINGS, Setting, frame, window_update
from epp.transport.native.frames import settings as settings_frame
from epp.transport.native.keepalive import Patience
from epp.transport.native.tls import ServerTls
from tests.fakes.certificates import new_pair, shake_hands, untrusting
from tests.fakes.eventually import eventually
from tests.fakes.transport.http2_peer import Peer, data, frames_in, message
from tests.fakes.transport.listening import listening
from tests.fakes.transport.native_streams import PATH, native_server
from tests.fakes.transport.streams import Opened, SilentHandler, TellingHandler

GREETING = PREFACE + frame(SETTINGS, 0, 0)
CLIENT_HELLO_BEGUN = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@asynccontextmanager
async def connected(port: int, greeting: bytes = b"") -> AsyncIterator[socket.socket]:
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, greeting)
        yield client


async def read(client: socket.socket) -> bytes:
    with suppress(ConnectionResetError):
        return await asyncio.get_running_loop().sock_recv(client, 65_536)
    return b""


async def is_served(client: socket.socket) -> bool:
    """Whether the server's SETTINGS come."""
    return (await read(client)) != b""


async def read_to_the_end(client: socket.socket) -> bytes:
    received = b""
    while part := await read(client):
        received += part
    return received


async def test_a_connection_over_the_limit_is_closed_at_once_and_others_live_on() -> None:
    with capture_logs() as logs:
        server = native_server(TellingHandler, max_connections=2)
        async with (
            listening(server) as port,
            connected(port, GREETING) as first,
            connected(port, GREETING) as second,
        ):
            assert await is_served(first)
            assert await is_served(second)

            for _ in range(5):
                async with connected(port) as third:
                    assert not await is_served(third)

            await asyncio.get_running_loop().sock_sendall(first, frame(6, 0, 0, b"are here"))
            while b"are here" not in await read(first):
                pass
    (line,) = [line for line in logs if line["event"].startswith("too many connections")]
    assert line["limit"] == 2


async def test_a_port_for_probes_ends_its_oldest_idle_connection_for_one_that_comes() -> None:
    server = native_server(SilentHandler, max_connections=3, spares_newest=True)
    async with (
        listening(server) as port,
        connected(port, GREETING + Peer().headers()) as busy,
        connected(port, GREETING) as first,
        connected(port) as second,
    ):
        assert await is_served(busy)
        assert await is_served(first)

        async with connected(port, GREETING) as probe, connected(port, GREETING) as another:
            assert await is_served(probe)
            assert await is_served(another)
            await read_to_the_end(first)
            await read_to_the_end(second)

        await asyncio.get_running_loop().sock_sendall(busy, frame(6, 0, 0, b"are here"))
        while b"are here" not in await read(busy):
            pass


async def test_of_busy_connections_the_oldest_makes_room_for_a_probe() -> None:
    server = native_server(SilentHandler, max_connections=1, spares_newest=True)
    async with listening(server) as port, connected(port, GREETING + Peer().headers()) as busy:
        assert await is_served(busy)

        async with connected(port, GREETING) as probe:
            assert await is_served(probe)
            await read_to_the_end(busy)


async def test_a_connection_that_ends_makes_room_for_another() -> None:
    async with listening(native_server(TellingHandler, max_connections=1)) as port:
        for _ in range(3):
            async with connected(port, GREETING) as only:
                assert await is_served(only)
                only.shutdown(socket.SHUT_WR)
                await read_to_the_end(only)


@pytest.mark.parametrize(
    "greeting",
    [b"", PREFACE[:10], PREFACE, PREFACE + b"\0\0\6\4"],
    ids=["nothing", "half a preface", "no SETTINGS", "half a SETTINGS frame"],
)
async def test_a_peer_that_does_not_greet_is_left(greeting: bytes) -> None:
    patience = Patience(pause_seconds=0.05)
    async with (
        listening(native_server(TellingHandler, patience=patience)) as port,
        connected(port, greeting) as client,
    ):
        await read_to_the_end(client)


@pytest.mark.parametrize("begun", [b"", CLIENT_HELLO_BEGUN], ids=["nothing", "half a hello"])
async def test_a_handshake_has_to_end_and_counts_as_a_connection(begun: bytes) -> None:
    server = native_server(
        TellingHandler,
        tls=ServerTls(new_pair()),
        patience=Patience(handshake_seconds=0.2),
        max_connections=2,
    )
    async with listening(server) as port:
        async with connected(port, begun) as first, connected(port, begun) as second:
            async with connected(port) as third:
                assert await read_to_the_end(third) == b""
            await read_to_the_end(first)
            await read_to_the_end(second)
        assert (await shake_hands(port)).protocol == "h2"


async def test_of_too_many_handshakes_the_oldest_is_given_up_and_who_comes_is_served() -> None:
    seen: list[ConnectionLimit] = []
    server = native_server(
        TellingHandler,
        tls=ServerTls(new_pair()),
        patience=Patience(handshake_seconds=60.0),
        handshakes=HandshakeLimits(under_way=2),
        observe_limits=seen.append,
    )
    async with (
        listening(server) as port,
        connected(port, CLIENT_HELLO_BEGUN) as first,
        connected(port) as second,
    ):
        assert (await shake_hands(port)).protocol == "h2"
        assert await read_to_the_end(first) == b""

        async with connected(port), connected(port):
            assert await read_to_the_end(second) == b""
            assert (await shake_hands(port)).protocol == "h2"

    assert "handshakes" in seen
    assert "handshake" in seen, "the first failed in its own"


async def test_handshakes_that_come_too_fast_wait_and_are_served() -> None:
    seen: list[ConnectionLimit] = []
    server = native_server(
        TellingHandler,
        tls=ServerTls(new_pair()),
        handshakes=HandshakeLimits(burst=2, per_second=50),
        observe_limits=seen.append,
    )
    async with listening(server) as port:
        shaken = await asyncio.gather(*(shake_hands(port) for _ in range(6)))

    assert {each.protocol for each in shaken} == {"h2"}
    assert "handshake-rate" in seen
    assert "handshakes" not in seen


async def test_what_comes_in_thousands_of_short_records_is_read_in_turns_and_to_the_end() -> None:
    peer = Peer()
    said = GREETING + peer.headers() + data(1, message(bytes(4_000)))
    server = native_server(TellingHandler, tls=ServerTls(new_pair()))
    async with listening(server) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=untrusting())
        for byte in said:
            writer.write(bytes([byte]))

        received = b""
        while message(bytes(4_000)) not in received:
            part = await reader.read(65_536)
            assert part
            received += part
        writer.transport.abort()


async def test_connections_without_tls_are_not_held_up() -> None:
    seen: list[ConnectionLimit] = []
    server = native_server(
        TellingHandler,
        handshakes=HandshakeLimits(under_way=1, burst=1, per_second=0.001),
        observe_limits=seen.append,
    )
    async with (
        listening(server) as port,
        connected(port, GREETING) as first,
        connected(port, GREETING) as second,
        connected(port, GREETING) as third,
    ):
        assert await is_served(first)
        assert await is_served(second)
        assert await is_served(third)
    assert seen == []


async def test_stopping_does_not_wait_for_handshakes() -> None:
    server = native_server(
        TellingHandler, tls=ServerTls(new_pair()), patience=Patience(handshake_seconds=60.0)
    )
    port = await server.start()
    async with connected(port, CLIENT_HELLO_BEGUN) as client:
        for _ in range(10):
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await server.stop(30)
        await read_to_the_end(client)


async def test_a_connection_without_streams_is_told_to_go_and_closed() -> None:
    patience = Patience(pause_seconds=0.02, timeout_seconds=0.02, idle_pauses=1)
    loop = asyncio.get_running_loop()
    async with (
        listening(native_server(TellingHandler, patience=patience)) as port,
        connected(port, GREETING) as client,
    ):
        kinds: list[int] = []
        while part := await read(client):
            frames = frames_in(part)
            kinds += [f.kind for f in frames]
            pings = [f for f in frames if f.kind == 6]
            with suppress(ConnectionError):
                for ping in pings:
                    await loop.sock_sendall(client, frame(6, 1, 0, ping.payload))
        assert GOAWAY in kinds


async def test_a_socket_that_stays_full_is_closed_and_nothing_is_held_for_it() -> None:
    def flood() -> Iterator[bytes]:
        while True:
            yield bytes(62_000)

    opened = Opened(SilentHandler)
    server = native_server(opened, patience=Patience(unread_seconds=0.1))
    widest = {Setting.INITIAL_WINDOW_SIZE: 2**31 - 1}
    peer = Peer()
    greeting = PREFACE + settings_frame(widest) + window_update(0, 2**31 - 65_536)
    request = peer.headers() + data(1, message(b"x"))
    async with listening(server) as port, connected(port, greeting + request):
        handler = await opened.next()
        handler.outlet.send((bytes(100_000),))
        handler.outlet.send(flood())

        while await handler.events.get() != "disconnect":
            pass

        await eventually(lambda: server.held_bytes == server.open_streams == 0)


async def test_the_same_through_tls() -> None:
    def flood() -> Iterator[bytes]:
        while True:
            yield bytes(62_000)

    opened = Opened(SilentHandler)
    patience = Patience(unread_seconds=0.1)
    server = native_server(opened, patience=patience, tls=ServerTls(new_pair()))
    widest = {Setting.INITIAL_WINDOW_SIZE: 2**31 - 1}
    greeting = PREFACE + settings_frame(widest) + window_update(0, 2**31 - 65_536)
    async with listening(server) as port:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=untrusting(), limit=1000
        )
        writer.write(greeting + Peer().headers())
        handler = await opened.next()
        handler.outlet.send(flood())

        while await handler.events.get() != "disconnect":
            pass

        await eventually(lambda: server.held_bytes == server.open_streams == 0)
        writer.transport.abort()
        del reader


async def test_a_client_that_was_told_to_go_comes_again() -> None:
    patience = Patience(pause_seconds=0.05, timeout_seconds=0.05, idle_pauses=1)
    server = native_server(TellingHandler, patience=patience)
    async with (
        listening(server) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        for _ in range(3):
            call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(PATH)()
            await call.write(b"x")
            assert await call.read() == b"x"
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK
            await eventually(lambda: not server._shared.connections)


async def test_a_peer_that_reads_slowly_is_kept() -> None:
    opened = Opened(SilentHandler)
    server = native_server(opened, patience=Patience(unread_seconds=30.0))
    widest = {Setting.INITIAL_WINDOW_SIZE: 2**31 - 1}
    greeting = PREFACE + settings_frame(widest) + window_update(0, 2**31 - 65_536)
    size = 20_000_000
    async with listening(server) as port, connected(port, greeting + Peer().headers()) as client:
        handler = await opened.next()
        handler.outlet.send((bytes(size),))
        for _ in range(50):
            await asyncio.sleep(0)
        received = 0
        while received < size:
            part = await read(client)
            assert part
            received += len(part)
    assert await handler.events.get() == "disconnect"


async def test_accepted_sockets_send_at_once() -> None:
    opened = Opened(SilentHandler)
    server = native_server(opened)
    async with listening(server) as port, connected(port, GREETING + Peer().headers()):
        await opened.next()
        (protocol,) = server._shared.connections
        accepted = protocol._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_client_that_speaks_no_tls_is_left() -> None:
    server = native_server(TellingHandler, tls=ServerTls(new_pair()))
    async with listening(server) as port, connected(port, GREETING) as client:
        await read_to_the_end(client)
        assert (await shake_hands(port)).protocol == "h2"
