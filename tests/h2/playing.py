"""Plays input to a connection beside one that behaves, and judges what comes of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import structlog
from hpack import Decoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from epp.gateway.service import METHOD
from epp.transport.native.budgets import Budget, HeldBytes, OpenStreams
from epp.transport.native.limits import ConnectionLimits
from epp.transport.streams import Outlet, StatusCode
from tests.fakes.transport.http2_peer import PATH, Peer, Recorder, data, message, messages_of
from tests.h2.conversations import Input

LIMITS = ConnectionLimits(
    max_streams=50, burst_of_noise=2000, burst_of_resets=200, receive_window=100_000
)
MAX_HELD_BYTES = 300_000
LARGEST_PUT_BYTES = 300_000
"""By which a single step may go over: one read, or one message of a handler."""
LARGEST_FRAME = 16_384
_EXPECTED = (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)


@contextmanager
def without_logs() -> Iterator[None]:
    """Handlers fail on purpose, and a traceback costs more than what is tried."""
    configured = structlog.get_config()
    structlog.configure(processors=[_drop])
    try:
        yield
    finally:
        structlog.configure(**configured)


def _drop(*_: object) -> str:
    raise structlog.DropEvent


class Chaotic(Recorder):
    """Does one thing or another, as a message's checksum says."""

    has_closed = False

    def on_message(self, message: bytes) -> None:
        assert not self.ends
        super().on_message(message)
        choice = zlib.crc32(message) % 16
        if choice == 0:
            self.outlet.send(self._many(message))
        elif choice == 1:
            self._close(StatusCode.OK)
        elif choice == 2:
            self._close(StatusCode.UNAVAILABLE)
        elif choice == 3:
            raise ValueError("broken")
        elif choice == 4:
            self.outlet.send(self._breaking())
        elif choice == 5:
            self.outlet.send([bytes(9000)] * 3)
        elif choice < 12:
            self.outlet.send((message, b""))

    def on_half_close(self) -> None:
        super().on_half_close()
        self._close(StatusCode.OK)

    def _close(self, code: StatusCode) -> None:
        self.has_closed = True
        self.outlet.close(code, "" if code is StatusCode.OK else "as was said, 100%")

    def _many(self, message: bytes) -> Iterator[bytes]:
        for _ in range(50):
            yield message[:3000]

    def _breaking(self) -> Iterator[bytes]:
        yield b"one"
        raise ValueError("broken")


class Judge:
    """Reads what a connection sends, as a strict client would."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._ended: set[int] = set()
        self._has_settings = False
        self._is_gone = False

    def read(self, output: bytes) -> None:
        """Whole frames, each in its place."""
        at = 0
        while at < len(output):
            assert len(output) - at >= 9, "half a header"
            one, size = Frame.parse_frame_header(memoryview(output)[at : at + 9])
            assert size <= LARGEST_FRAME
            assert len(output) >= at + 9 + size, "half a frame"
            one.parse_body(memoryview(output)[at + 9 : at + 9 + size])
            self._judge(one)
            at += 9 + size

    def _judge(self, one: Frame) -> None:
        assert isinstance(one, _EXPECTED), one
        assert not self._is_gone, "a frame after the last GOAWAY"
        assert self._has_settings or isinstance(one, SettingsFrame)
        self._has_settings = True
        if isinstance(one, HeadersFrame):
            assert "END_HEADERS" in one.flags
            self._decoder.decode(one.data)
        if isinstance(one, HeadersFrame | DataFrame):
            assert one.stream_id % 2 == 1
            assert one.stream_id not in self._ended, "more on a stream that has ended"
        if isinstance(one, RstStreamFrame) or "END_STREAM" in one.flags:
            self._ended.add(one.stream_id)
        if isinstance(one, GoAwayFrame):
            self._is_gone = one.error_code != 0


class Stage:
    """One connection to be mistreated, and a neighbour that shares its budget."""

    def __init__(self) -> None:
        self.handlers: list[Chaotic] = []
        self.budget = Budget(held=HeldBytes(MAX_HELD_BYTES), streams=OpenStreams(200))
        self.victim = Peer(self._make, limits=LIMITS, budget=self.budget, paths=(PATH, METHOD))
        self.neighbour = Peer(budget=self.budget)
        self.neighbour.greet()
        self._judge = Judge()
        self._next_stream = 1

    def _make(self, outlet: Outlet) -> Chaotic:
        self.handlers.append(Chaotic(outlet))
        return self.handlers[-1]

    def play(self, given: Input) -> None:
        """Play the input; AssertionError, or whatever escapes, says what is wrong."""
        random = Random(given.schedule)
        largest = random.choice((1, 10, 500, 20_000, 262_144))
        if largest < 500 and len(given.content) > 20_000:
            largest = 500
        at = 0
        while at < len(given.content) and not self.victim.connection.is_closed:
            size = random.randrange(1, largest + 1)
            self.victim.connection.receive(given.content[at : at + size])
            at += size
            self._go_on(random)
        self._talk_to_the_neighbour()
        self._end()

    def _go_on(self, random: Random) -> None:
        """Time passes, the socket fills up and empties, handlers have more to say."""
        victim = self.victim
        outbox = victim.connection.outbox
        if random.random() < 0.1:
            outbox.is_paused = not outbox.is_paused
        if random.random() < 0.1:
            victim.world.advance(random.choice((0.001, 0.01, 1.0)))
        if random.random() < 0.1 and self.handlers:
            random.choice(self.handlers[-50:]).outlet.send((bytes(random.choice((0, 10, 5000))),))
        if random.random() < 0.8:
            self._judge.read(outbox.take())
        streams = self.budget.streams.count
        assert len(victim.connection.table) <= LIMITS.max_streams
        assert streams == len(victim.connection.table) + len(self.neighbour.connection.table)
        assert 0 <= self.budget.held.used <= MAX_HELD_BYTES + LARGEST_PUT_BYTES

    def _talk_to_the_neighbour(self) -> None:
        """It is served whatever the other does, as long as there is room."""
        if self.budget.held.is_exceeded:
            return
        neighbour, stream_id = self.neighbour, self._next_stream
        self._next_stream += 2
        neighbour.send(neighbour.headers(stream_id), data(stream_id, message(b"hello")))
        assert neighbour.handler.messages == [b"hello"]
        neighbour.handler.outlet.send((b"world",))
        frames = neighbour.read()
        assert messages_of(frames, stream_id) == [b"world"]
        neighbour.handler.outlet.close()
        assert neighbour.status([*frames, *neighbour.read()], stream_id) is StatusCode.OK

    def _end(self) -> None:
        """Whatever was half done, nothing of it stays."""
        victim = self.victim
        victim.connection.outbox.is_paused = False
        while output := victim.connection.outbox.take():
            self._judge.read(output)
        victim.connection.lost()
        victim.world.advance(1e9)
        assert victim.connection.outbox.take() == b""
        assert self.budget.held.used == 0
        assert self.budget.streams.count == 0
        assert len(self.handlers) <= victim.observer.opened == len(victim.observer.codes)
        for handler in self.handlers:
            assert handler.ends.count("half-close") <= 1
            assert handler.ends.count("disconnect") == (0 if handler.has_closed else 1)
            assert "disconnect" not in handler.ends[:-1]


def play(given: Input) -> None:
    """Play one input on a stage of its own."""
    Stage().play(given)
