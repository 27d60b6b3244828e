"""The other end of a native connection, without sockets: hand-made frames and virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hpack import Decoder, Encoder

from epp.transport.native.budgets import Budget, HeldBytes, OpenStreams
from epp.transport.native.connection import Connection
from epp.transport.native.frames import (
    DATA,
    DEFAULT_FRAME_BYTES,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADER,
    HEADER_BYTES,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ACK,
    ErrorCode,
    frame,
)
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.streams import MessageLimits, Outlet, StatusCode, StreamHandler
from tests.fakes.transport.streams import CountingObserver

PATH = "/test.Streams/Talk"
REQUEST = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", PATH),
    (":authority", "test"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
)


class Frame(NamedTuple):
    """One frame as the peer sees it."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes

    @property
    def error(self) -> ErrorCode:
        """Of RST_STREAM and GOAWAY."""
        at = 4 if self.kind == GOAWAY else 0
        return ErrorCode(int.from_bytes(self.payload[at : at + 4], "big"))


@dataclass(eq=False)
class Recorder:
    """A handler that keeps what happens to it; the test holds its outlet."""

    outlet: Outlet
    messages: list[bytes] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    is_over: bool = False
    """Whether nothing is left to do when the peer leaves."""

    def on_message(self, message: bytes) -> None:
        self.messages.append(message)

    def on_half_close(self) -> None:
        self.ends.append("half-close")

    def on_disconnect(self) -> bool:
        self.ends.append("disconnect")
        return self.is_over

    def log_values(self) -> Mapping[str, str]:
        return {"stream": "a"}


@dataclass(eq=False)
class Due:
    """A timer of the virtual clock."""

    at: float
    callback: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class World:
    """What the connection asks of the event loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wakes = 0
        self.is_closing = False
        self.timers: list[Due] = []

    def wake(self) -> None:
        self.wakes += 1

    def close(self) -> None:
        self.is_closing = True

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Due:
        timer = Due(self.now + seconds, callback)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        due = [timer for timer in self.timers if timer.at <= self.now]
        self.timers = [timer for timer in self.timers if timer.at > self.now]
        for timer in due:
            if not timer.is_cancelled:
                timer.callback()


class Peer:
    """Speaks with one connection."""

    def __init__(
        self,
        make: Callable[[Outlet], StreamHandler] | None = None,
        *,
        limits: ConnectionLimits | None = None,
        messages: MessageLimits | None = None,
        max_held_bytes: int = 1 << 30,
        budget: Budget | None = None,
        paths: Sequence[str] = (PATH,),
    ) -> None:
        self.world = World()
        self.handlers: list[Recorder] = []
        self.observer = CountingObserver()
        self.budget = budget or Budget(held=HeldBytes(max_held_bytes), streams=OpenStreams(100_000))
        self.held = self.budget.held
        method = StreamMethod(PATH, make or self._record, limits=messages, observer=self.observer)
        self.connection = Connection(
            self.world,
            {path.encode(): method for path in paths},
            budget=self.budget,
            limits=limits or ConnectionLimits(),
            clock=lambda: self.world.now,
            stopwatch=lambda: self.world.now,
        )
        self.connection.open()
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._partial = b""

    def _record(self, outlet: Outlet) -> Recorder:
        self.handlers.append(Recorder(outlet))
        return self.handlers[-1]

    @property
    def handler(self) -> Recorder:
        """The newest."""
        return self.handlers[-1]

    def greet(self, settings: bytes = b"") -> list[Frame]:
        """Begin as every client does, and acknowledge our settings."""
        self._encoder.header_table_size = 0
        return self.send(PREFACE, frame(SETTINGS, 0, 0, settings), SETTINGS_ACK)

    def send(self, *frames: bytes) -> list[Frame]:
        """Send, and read the answer."""
        self.connection.receive(b"".join(frames))
        return self.read()

    def read(self) -> list[Frame]:
        """All that comes."""
        frames = []
        while output := self.connection.outbox.take():
            frames += frames_in(output)
        return frames

    def headers(
        self,
        stream_id: int = 1,
        *,
        fields: Sequence[tuple[str, str]] = REQUEST,
        extra: Sequence[tuple[str, str]] = (),
        end: bool = False,
    ) -> bytes:
        """A HEADERS frame."""
        block = self._encoder.encode([*fields, *extra])
        flags = END_HEADERS | (END_STREAM if end else 0)
        return frame(HEADERS, flags, stream_id, block)

    def decode(self, headers: Frame) -> dict[str, str]:
        """What a HEADERS frame says."""
        assert headers.kind == HEADERS
        return {str(name): str(value) for name, value in self._decoder.decode(headers.payload)}

    def status(self, frames: Sequence[Frame], stream_id: int = 1) -> StatusCode:
        """The gRPC status that one of the frames carries. Decodes all of them."""
        found = []
        for one in frames:
            if one.kind == HEADERS:
                fields = self.decode(one)
                if one.stream_id == stream_id and "grpc-status" in fields:
                    found.append(StatusCode(int(fields["grpc-status"])))
        (code,) = found
        return code


def message(body: bytes, flag: int = 0) -> bytes:
    """A gRPC message."""
    return bytes((flag,)) + len(body).to_bytes(4, "big") + body


def data(stream_id: int, content: bytes, *, end: bool = False) -> bytes:
    """DATA frames of the largest size."""
    pieces = [
        content[at : at + DEFAULT_FRAME_BYTES] for at in range(0, len(content), DEFAULT_FRAME_BYTES)
    ] or [b""]
    frames = [frame(DATA, 0, stream_id, piece) for piece in pieces[:-1]]
    frames.append(frame(DATA, END_STREAM if end else 0, stream_id, pieces[-1]))
    return b"".join(frames)


def frames_in(output: bytes) -> list[Frame]:
    """Whole frames, nothing left over."""
    frames = []
    at = 0
    while at < len(output):
        high, low, kind, flags, stream_id = HEADER.unpack_from(output, at)
        start = at + HEADER_BYTES
        at = start + (high << 8 | low)
        assert at <= len(output), "half a frame"
        frames.append(Frame(kind, flags, stream_id, output[start:at]))
    return frames


def body_of(frames: Sequence[Frame], stream_id: int = 1) -> bytes:
    """The content of a stream's DATA."""
    return b"".join(f.payload for f in frames if f.kind == DATA and f.stream_id == stream_id)


def messages_of(frames: Sequence[Frame], stream_id: int = 1) -> list[bytes]:
    """The whole messages in a stream's DATA."""
    body = body_of(frames, stream_id)
    messages = []
    while body:
        size = int.from_bytes(body[1:5], "big")
        assert len(body) >= 5 + size
        messages.append(body[5 : 5 + size])
        body = body[5 + size :]
    return messages


def resets_in(frames: Sequence[Frame]) -> dict[int, ErrorCode]:
    """Streams that were reset."""
    return {f.stream_id: f.error for f in frames if f.kind == RST_STREAM}


def goaway_in(frames: Sequence[Frame]) -> ErrorCode:
    """With which error the connection ends."""
    (one,) = (f for f in frames if f.kind == GOAWAY)
    return one.error
