from __future__ import annotations

import asyncio

from hpack import Encoder

from epp.transport.native.budgets import Budget, HeldBytes, OpenStreams
from epp.transport.native.frames import (
    END_HEADERS,
    HEADERS,
    PREFACE,
    SETTINGS_ACK,
    Setting,
    frame,
    settings,
    window_update,
)
from epp.transport.native.keepalive import Patience
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.native.protocol import NativeProtocol, Shared
from epp.transport.streams import Outlet
from tests.fakes.transport.http2_peer import (
    PATH,
    REQUEST,
    Recorder,
    data,
    frames_in,
    message,
    messages_of,
)

MESSAGE = b"x" * 1000
MESSAGES = 100


class Socket(asyncio.Transport):
    """Takes everything, and knows whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_read = True
        self.is_gone = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_gone

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""


class Slow(Recorder):
    """Gives every message back, and takes its time."""

    def __init__(self, outlet: Outlet, server: Server) -> None:
        super().__init__(outlet)
        self.server = server

    def on_message(self, message: bytes) -> None:
        super().on_message(message)
        self.server.now += self.server.seconds_per_message
        self.outlet.send((message,))


class Server:
    """One connection with a stopwatch that handlers move on."""

    def __init__(self, seconds_per_message: float) -> None:
        self.now = 0.0
        self.seconds_per_message = seconds_per_message
        self.handlers: list[Slow] = []
        self.socket = Socket()
        shared = Shared(
            methods={PATH.encode(): StreamMethod(PATH, self._handler)},
            budget=Budget(held=HeldBytes(1 << 20), streams=OpenStreams(10)),
            limits=ConnectionLimits(),
            patience=Patience(),
            on_empty=lambda: None,
            stopwatch=lambda: self.now,
        )
        self.protocol = NativeProtocol(shared, asyncio.get_running_loop())
        self.protocol.connection_made(self.socket)
        wide = settings({Setting.INITIAL_WINDOW_SIZE: 1 << 20}) + window_update(0, 1 << 20)
        self.protocol.data_received(PREFACE + wide + SETTINGS_ACK)

    def _handler(self, outlet: Outlet) -> Slow:
        self.handlers.append(Slow(outlet, self))
        return self.handlers[-1]

    @property
    def answers(self) -> list[bytes]:
        return messages_of(frames_in(self.socket.written))


def talk() -> bytes:
    """A stream with many messages, as one read brings it."""
    head = frame(HEADERS, END_HEADERS, 1, Encoder().encode(REQUEST))
    return head + b"".join(data(1, message(MESSAGE)) for _ in range(MESSAGES))


async def turns_until_read(server: Server) -> int:
    turns = 0
    while not server.socket.is_read:
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_a_read_that_takes_long_to_answer_leaves_turns_to_others() -> None:
    server = Server(seconds_per_message=0.001)

    server.protocol.data_received(talk())

    assert 0 < len(server.answers) < MESSAGES / 4
    assert not server.socket.is_read, "more would only wait"
    assert await turns_until_read(server) > 4
    assert server.answers == [MESSAGE] * MESSAGES
    server.protocol.connection_lost(None)


async def test_a_read_that_is_answered_quickly_takes_one_turn() -> None:
    server = Server(seconds_per_message=0.0)

    server.protocol.data_received(talk())

    assert len(server.handlers[0].messages) == MESSAGES
    assert server.socket.is_read
    server.protocol.connection_lost(None)


async def test_what_comes_all_the_same_is_taken_in_order() -> None:
    server = Server(seconds_per_message=0.001)

    server.protocol.data_received(talk())
    server.protocol.data_received(data(1, message(b"late")))
    await turns_until_read(server)

    assert server.handlers[0].messages == [MESSAGE] * MESSAGES + [b"late"]
    server.protocol.connection_lost(None)


async def test_what_is_left_of_a_connection_that_is_gone_is_forgotten() -> None:
    server = Server(seconds_per_message=0.001)

    server.protocol.data_received(talk())
    taken = len(server.handlers[0].messages)
    server.socket.is_gone = True
    server.protocol.connection_lost(None)
    await asyncio.sleep(0)

    assert len(server.handlers[0].messages) == taken
