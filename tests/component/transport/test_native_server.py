from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import grpc
import h2.connection
import h2.events
import pytest
from structlog.testing import capture_logs

from epp.framework.errors import PortTaken
from epp.transport.native.frames import GOAWAY
from epp.transport.native.keepalive import Patience
from epp.transport.native.methods import StreamMethod, unary
from epp.transport.native.server import NativeServer
from epp.transport.streams import Outlet
from tests.fakes.eventually import eventually
from tests.fakes.transport.http2_peer import frames_in
from tests.fakes.transport.native_streams import native_server
from tests.fakes.transport.streams import (
    METHOD,
    SERVICE,
    CountingObserver,
    Opened,
    SilentHandler,
    TellingHandler,
    read_all,
)

MIB = 1024 * 1024
PATH = f"/{SERVICE}/{METHOD}"
HEADERS = [
    (":method", "POST"),
    (":path", PATH),
    (":scheme", "http"),
    (":authority", "test"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
]
MESSAGE = b"\0\0\0\0\1x"
UNLIMITED = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
)


class Flooding(SilentHandler):
    """Answers any message with more than a peer's window takes."""

    produced = 0

    def on_message(self, message: bytes) -> None:
        super().on_message(message)
        self.outlet.send(self.flood())

    def flood(self) -> Iterator[bytes]:
        try:
            while True:
                self.produced += 1
                yield bytes(62_000)
        finally:
            self.events.put_nowait("generator closed")


async def until_clogged(handler: TellingHandler) -> None:
    """Wait until nothing is produced over many turns of the loop: everything is full."""
    assert isinstance(handler, Flooding)
    produced = -1
    while produced != handler.produced or not produced:
        produced = handler.produced
        for _ in range(100):
            await asyncio.sleep(0)


class RawPeer:
    """A socket and an HTTP/2 state machine that does only what it is told."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.h2 = h2.connection.H2Connection()
        self.h2.initiate_connection()

    async def open(self, data: bytes = b"") -> None:
        """Open a stream, and send `data` on it."""
        self.h2.send_headers(1, HEADERS)
        if data:
            self.h2.send_data(1, data)
        await self.send()

    def take_all_there_is(self) -> None:
        """Open both windows as far as they go."""
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1})
        self.h2.increment_flow_control_window(2**31 - 1 - 65_535)

    async def send(self) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, self.h2.data_to_send())

    async def read(self) -> list[h2.events.Event]:
        data = await asyncio.get_running_loop().sock_recv(self.socket, 65_536)
        return self.h2.receive_data(data) if data else [h2.events.ConnectionTerminated()]

    async def until(self, kind: type[h2.events.Event]) -> h2.events.Event:
        while True:
            for event in await self.read():
                if isinstance(event, kind):
                    return event

    async def until_goaway(self) -> None:
        """Past h2, which takes nothing behind a GOAWAY, not even a ping."""
        read = asyncio.get_running_loop().sock_recv
        while GOAWAY not in {f.kind for f in frames_in(await read(self.socket, 65_536))}:
            pass

    async def until_gone(self) -> None:
        with suppress(ConnectionResetError):
            while await asyncio.get_running_loop().sock_recv(self.socket, 65_536):
                pass

    def close(self) -> None:
        self.socket.close()


async def started(server: NativeServer) -> tuple[NativeServer, int]:
    return server, await server.start()


@pytest.fixture
async def channel(request: pytest.FixtureRequest) -> AsyncIterator[grpc.aio.Channel]:
    server, port = await started(native_server(TellingHandler))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=UNLIMITED) as channel:
        yield channel
    await server.stop(0)
    assert server.held_bytes == 0


async def test_a_message_of_64_mib_comes_back(channel: grpc.aio.Channel) -> None:
    body = bytes(range(256)) * (64 * MIB // 256)
    call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(PATH)()

    await call.write(body)

    assert await call.read() == body


async def test_a_thousand_streams_of_one_connection_talk_at_once(
    channel: grpc.aio.Channel,
) -> None:
    open_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(PATH)
    calls = [open_stream() for _ in range(1000)]
    for number, call in enumerate(calls):
        await call.write(b"%d" % number)
    answers = [await call.read() for call in calls]
    assert answers == [b"%d" % number for number in range(1000)]
    for call in calls:
        await call.done_writing()
    assert {await call.code() for call in calls} == {grpc.StatusCode.OK}


async def test_several_connections_are_served_and_one_that_breaks_ends_alone() -> None:
    observer = CountingObserver()
    opened = Opened(TellingHandler)
    server, port = await started(native_server(opened, observer=observer))
    peers = [RawPeer(port) for _ in range(3)]
    for peer in peers:
        await peer.open(MESSAGE)
    handlers = [await opened.next() for _ in peers]

    await asyncio.get_running_loop().sock_sendall(peers[0].socket, b"\0\0\x01\x06" + bytes(6))
    await peers[0].until(h2.events.ConnectionTerminated)
    await eventually(lambda: observer.codes == ["Canceled"])

    for peer in peers[1:]:
        peer.h2.end_stream(1)
        await peer.send()
        await peer.until(h2.events.StreamEnded)
    assert observer.codes == ["Canceled", "OK", "OK"]
    assert len(handlers) == 3
    for peer in peers:
        peer.close()
    await server.stop(0)


async def test_a_reader_that_stops_holds_back_its_own_stream_only() -> None:
    opened = Opened(Flooding)
    server, port = await started(native_server(opened))
    slow = RawPeer(port)
    await slow.open(MESSAGE)
    handler = await opened.next()
    assert isinstance(handler, Flooding)
    received = 0
    while received < 65_535:
        for event in await slow.read():
            if isinstance(event, h2.events.DataReceived):
                received += len(event.data)
    produced = handler.produced
    assert produced < 10

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(PATH)()
        await call.write(b"x")
        for _ in range(50):
            assert await call.read() == bytes(62_000)
        assert handler.produced == produced
        call.cancel()
    slow.close()
    while await handler.events.get() != "disconnect":
        pass
    await server.stop(0)


async def test_a_socket_that_is_not_read_bounds_what_is_produced() -> None:
    opened = Opened(Flooding)
    server, port = await started(native_server(opened))
    peer = RawPeer(port)
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    peer.take_all_there_is()
    await peer.open(MESSAGE)
    handler = await opened.next()
    assert isinstance(handler, Flooding)

    await until_clogged(handler)

    assert 0 < handler.produced < 2000

    peer.close()
    while await handler.events.get() != "disconnect":
        pass
    await server.stop(0)


async def test_a_peer_that_reads_again_gets_all_that_is_left() -> None:
    def finite() -> Iterator[bytes]:
        for _ in range(200):
            yield bytes(62_000)

    opened = Opened(SilentHandler)
    server, port = await started(native_server(opened))
    peer = RawPeer(port)
    peer.take_all_there_is()
    await peer.open()
    handler = await opened.next()
    handler.outlet.send(finite())
    handler.outlet.close()
    for _ in range(300):  # until nothing fits any more
        await asyncio.sleep(0)

    received = 0
    is_over = False
    while not is_over:
        for event in await peer.read():
            is_over |= isinstance(event, h2.events.StreamEnded)
            if isinstance(event, h2.events.DataReceived):
                received += len(event.data)

    assert received == 200 * 62_005
    peer.close()
    await server.stop(0)


async def test_a_peer_that_closes_its_side_has_left() -> None:
    opened = Opened(SilentHandler)
    server, port = await started(native_server(opened))
    peer = RawPeer(port)
    await peer.open()
    handler = await opened.next()

    peer.socket.shutdown(socket.SHUT_WR)

    assert await handler.events.get() == "disconnect"
    peer.close()
    await server.stop(0)


@pytest.mark.parametrize("is_greeting", [True, False], ids=["half-open", "never greeted"])
async def test_a_peer_that_says_nothing_is_given_up(is_greeting: bool) -> None:
    times = Patience(pause_seconds=0.05, timeout_seconds=0.05)
    opened = Opened(SilentHandler)
    server, port = await started(native_server(opened, patience=times))
    peer = RawPeer(port)
    if is_greeting:
        await peer.open()
        handler = await opened.next()
        assert await handler.events.get() == "disconnect"
    await peer.until_gone()
    peer.close()
    await server.stop(0)


async def test_a_peer_that_answers_pings_is_kept() -> None:
    times = Patience(pause_seconds=0.02, timeout_seconds=0.02)
    opened = Opened(TellingHandler)
    server, port = await started(native_server(opened, patience=times))
    peer = RawPeer(port)
    await peer.open()
    for _ in range(5):
        await peer.until(h2.events.PingReceived)
        await peer.send()
    peer.h2.end_stream(1)
    await peer.send()
    await peer.until(h2.events.StreamEnded)
    peer.close()
    await server.stop(0)


async def test_stopping_tells_peers_to_go_and_takes_no_new_streams() -> None:
    opened = Opened(SilentHandler)
    server, port = await started(native_server(opened))
    peer = RawPeer(port)
    await peer.open()
    handler = await opened.next()

    stopping = asyncio.create_task(server.stop(30))
    await peer.until_goaway()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    handler.outlet.close()
    await stopping

    assert handler.events.empty()
    peer.close()


async def test_streams_left_after_the_grace_end_as_unavailable() -> None:
    opened = Opened(SilentHandler)
    observer = CountingObserver()
    server, port = await started(native_server(opened, observer=observer))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(PATH)()
        await call.write(b"x")
        handler = await opened.next()
        await handler.events.get()

        await server.stop(0.01)

        assert await call.code() is grpc.StatusCode.UNAVAILABLE
        assert await handler.events.get() == "disconnect"
    assert observer.codes == ["Unavailable"]


async def test_stopping_does_not_wait_for_peers_that_do_not_read() -> None:
    opened = Opened(Flooding)
    server, port = await started(native_server(opened))
    peer = RawPeer(port)
    peer.take_all_there_is()
    await peer.open(MESSAGE)
    handler = await opened.next()
    await until_clogged(handler)

    async with asyncio.timeout(15):
        await server.stop(0)

    events = []
    while not handler.events.empty():
        events.append(handler.events.get_nowait())
    assert events.count("disconnect") == 1
    peer.close()


async def test_stopping_again_and_sooner_is_heard() -> None:
    opened = Opened(SilentHandler)
    server, port = await started(native_server(opened))
    peer = RawPeer(port)
    await peer.open()
    handler = await opened.next()
    patient = asyncio.create_task(server.stop(60))
    await peer.until_goaway()

    await server.stop(0)
    await patient

    assert await handler.events.get() == "disconnect"
    peer.close()


async def test_a_connection_that_comes_while_stopping_is_turned_away() -> None:
    server, port = await started(native_server(TellingHandler))
    late = RawPeer(port)  # nobody has accepted it yet
    await server.stop(0)
    await late.until_gone()
    late.close()


async def test_a_deadline_of_the_caller_ends_the_stream() -> None:
    opened = Opened(SilentHandler)
    server, port = await started(native_server(opened))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(PATH)(timeout=0.2)
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await (await opened.next()).events.get() == "disconnect"
    await server.stop(0)


async def test_unary_methods_are_served_beside_the_stream() -> None:
    def double(message: bytes) -> bytes:
        return message * 2

    server, port = await started(
        native_server(TellingHandler, methods=[StreamMethod("/test.Extra/Double", unary(double))])
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/test.Extra/Double"
        )
        assert await call(b"ab") == b"abab"
    await server.stop(0)


async def test_a_taken_port_names_its_flag() -> None:
    server, port = await started(native_server(TellingHandler))
    other = NativeServer(address="127.0.0.1", port=port, port_flag="--grpc-port", methods=[])
    with pytest.raises(PortTaken, match=f"--grpc-port: can't listen on 127.0.0.1:{port}"):
        await other.start()
    await server.stop(0)


@pytest.mark.parametrize("address", ["[::]", "::1", "[::1]", "0.0.0.0"])
async def test_addresses_are_taken_as_grpc_takes_them(address: str) -> None:
    method = StreamMethod(PATH, TellingHandler)
    server = NativeServer(address=address, port=0, port_flag="--grpc-port", methods=[method])
    port = await server.start()
    reachable = ["[::1]"] if "::1" in address else ["127.0.0.1"]
    reachable += ["[::1]"] if address == "[::]" else []
    for host in reachable:
        async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
            call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(PATH)()
            await call.write(b"x")
            assert await call.read() == b"x"
    await server.stop(0)


async def test_many_streams_that_come_at_once_are_all_served() -> None:
    observer = CountingObserver()
    server, port = await started(native_server(TellingHandler, observer=observer))
    peer = RawPeer(port)
    for number in range(3500):
        peer.h2.send_headers(2 * number + 1, HEADERS, end_stream=True)
    await peer.send()

    await eventually(lambda: len(observer.codes) == 3500)

    assert set(observer.codes) == {"OK"}
    peer.close()
    await server.stop(0)


async def test_a_factory_that_closes_at_once_is_heard() -> None:
    class Leaving(TellingHandler):
        def __init__(self, outlet: Outlet) -> None:
            super().__init__(outlet)
            outlet.send((b"bye",))
            outlet.close()

    server, port = await started(native_server(Leaving))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with capture_logs() as logs:
            call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(PATH)()
            assert await read_all(call) == [b"bye"]
            assert await call.code() is grpc.StatusCode.OK
    assert logs == []
    await server.stop(0)
