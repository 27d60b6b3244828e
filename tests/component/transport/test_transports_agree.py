"""The same bytes to both transports, and the same answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import grpc
import h2.config
import h2.connection
import h2.events
import pytest

from epp.gateway.service import METHOD
from epp.transport.streams import MessageLimits
from tests.benchmarks import state_machine
from tests.benchmarks.traffic import FULL_DUPLEX, STREAMED, traffic
from tests.benchmarks.transport_server import server as picker_server
from tests.fakes.transport.http2_peer import message
from tests.fakes.transport.listening import listening
from tests.fakes.transport.native_streams import PATH, native_server
from tests.fakes.transport.obeying import Obeying
from tests.fakes.transport.streams import (
    CountingObserver,
    stream_server,
)

LIMITS = MessageLimits(max_receive_bytes=100_000)
HEADERS = {
    ":method": "POST",
    ":scheme": "http",
    ":path": PATH,
    ":authority": "test",
    "te": "trailers",
    "content-type": "application/grpc",
}


@dataclass(frozen=True, kw_only=True)
class Call:
    """What one client sends."""

    content: Sequence[bytes] = ()
    """DATA, as it is cut."""
    headers: dict[str, str] = field(default_factory=dict)
    end: bool = True
    """With the content; or else once there is an answer, if one comes."""
    window: int = 65_535


@dataclass(kw_only=True)
class Answer:
    """What it gets."""

    http_status: str = ""
    grpc_status: str = ""
    grpc_message: str = ""
    body: bytes = b""


async def ask(port: int, call: Call) -> Answer:
    """Make one call on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    connection.initiate_connection()
    connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: call.window})
    headers = [(name, value) for name, value in (HEADERS | call.headers).items() if value]
    connection.send_headers(1, headers, end_stream=call.end and not call.content)
    for piece in call.content:
        connection.send_data(1, piece)
        writer.write(connection.data_to_send())
        await asyncio.sleep(0)
    if call.end and call.content:
        connection.end_stream(1)
    answer = Answer()
    has_ended = call.end
    is_over = False
    while not is_over:
        writer.write(connection.data_to_send())
        data = await reader.read(65_536)
        assert data, "the connection was closed"
        for event in connection.receive_data(data):
            is_over |= isinstance(event, h2.events.StreamEnded | h2.events.StreamReset)
            if isinstance(event, h2.events.DataReceived):
                answer.body += event.data
                if not has_ended:
                    connection.end_stream(1)
                    has_ended = True
                size = event.flow_controlled_length
                if size and not event.stream_ended:
                    connection.acknowledge_received_data(size, 1)
            elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                fields = {str(name): str(value) for name, value in event.headers}
                answer.http_status = fields.get(":status", answer.http_status)
                answer.grpc_status = fields.get("grpc-status", answer.grpc_status)
                answer.grpc_message = fields.get("grpc-message", answer.grpc_message)
    writer.close()
    return answer


BIG = bytes(range(256)) * 390
CALLS = {
    "one message": Call(content=[message(b"hello")]),
    "nothing": Call(),
    "an empty message": Call(content=[message(b"")]),
    "two in one frame": Call(content=[message(b"a") + message(b"b")]),
    "one in pieces": Call(content=[b"\0\0", b"\0\0", b"\x03a", b"b", b"c"]),
    "a large one": Call(
        content=[message(BIG)[at : at + 9_000] for at in range(0, 63_000, 9_000)],
        end=False,
        headers={"grpc-timeout": "200m"},
    ),
    "answers over the window": Call(content=[message(b"flood")]),
    "answers through a keyhole": Call(content=[message(b"flood")], window=1000),
    "an answer that comes late": Call(content=[message(b"later")], end=False),
    "an error of the handler's choice": Call(content=[message(b"x"), message(b"unavailable")]),
    "a handler that fails": Call(content=[message(b"raise")]),
    "an unknown method": Call(headers={":path": "/test.Streams/Other"}),
    "an unknown service": Call(headers={":path": "/other/Talk"}, content=[message(b"x")]),
    "a path that is none": Call(headers={":path": "/"}),
    "a deadline": Call(headers={"grpc-timeout": "50m"}, end=False),
    "kind with a suffix": Call(
        content=[message(b"x")], headers={"content-type": "application/grpc+proto"}
    ),
    "user agent and metadata": Call(
        content=[message(b"x")], headers={"user-agent": "test/1", "x-thing-bin": "AAEC"}
    ),
}


@pytest.fixture
async def ports() -> AsyncIterator[tuple[int, int]]:
    """Of a server on each transport."""
    theirs = stream_server(Obeying, limits=LIMITS, observer=CountingObserver())
    ours = native_server(Obeying, limits=LIMITS, observer=CountingObserver())
    async with listening(theirs) as their_port, listening(ours) as our_port:
        yield their_port, our_port


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_both_transports_answer_alike(ports: tuple[int, int], call: Call) -> None:
    theirs, ours = [await ask(port, call) for port in ports]

    assert ours.body == theirs.body
    assert ours.http_status == theirs.http_status == "200"
    assert ours.grpc_status == theirs.grpc_status
    if ours.grpc_status in ("0", "13", "14"):
        assert ours.grpc_message == theirs.grpc_message


@pytest.mark.parametrize("mode", [FULL_DUPLEX, STREAMED])
@pytest.mark.parametrize("kib", [1, 16, 128, 700])
async def test_requests_get_the_same_answers(kib: int, mode: str) -> None:
    sent = traffic(kib * 1024, 5, mode)
    expected = state_machine.answers_to_request(sent)
    told: list[list[bytes]] = []
    for transport in ("grpc", "native"):
        server = picker_server(transport, state_machine.processor())
        port = await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(METHOD)()
            for each in sent.request:
                await call.write(each)
            answers = [await call.read() for _ in range(expected)]
            for each in sent.response:
                await call.write(each)
                answers.append(await call.read())
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK
        told.append([answer for answer in answers if isinstance(answer, bytes)])
        await server.stop(0)

    assert told[0] == told[1]
    assert len(told[0]) == expected + len(sent.response)
