"""One HTTP/2 connection without its socket: bytes in, calls to handlers, bytes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from epp.transport.native.budgets import Allowance, Budget
from epp.transport.native.control_frames import ControlFrames
from epp.transport.native.frame_reader import FrameReader
from epp.transport.native.frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    HEADERS,
    LARGEST_STREAM,
    PING,
    RST_STREAM,
    SETTINGS,
    ConnectionFault,
    ErrorCode,
    Setting,
    StreamFault,
    frame,
    goaway,
    settings,
    window_update,
)
from epp.transport.native.header_assembly import HeaderAssembly
from epp.transport.native.header_blocks import MAX_HEADER_LIST_BYTES
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.native.outbox import Outbox, Timer
from epp.transport.native.stream_table import StreamTable
from epp.transport.streams import StatusCode

log = structlog.get_logger(__name__)

_DRAINING = b"draining"
_DRAINING_SECONDS = 1.0
"""For the answer to that ping."""
_ALIVE = b"are you?"
_NOISE_PER_DATA_FRAME = 4
"""Peers answer DATA with WINDOW_UPDATEs, and some with pings."""


class Wire(Protocol):
    """What a connection needs of the world."""

    def wake(self) -> None:
        """Output waits to be taken."""

    def close(self) -> None:
        """Close, when the output has been taken."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back in a while."""


class Connection:
    """Speaks with one peer. Whatever that sends, nothing raises out of the public methods."""

    def __init__(
        self,
        wire: Wire,
        methods: Mapping[bytes, StreamMethod],
        *,
        budget: Budget,
        limits: ConnectionLimits,
        clock: Callable[[], float] = time.monotonic,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self.outbox = Outbox(wire.wake)
        self.table = StreamTable(
            methods,
            outbox=self.outbox,
            budget=budget,
            limits=limits,
            call_later=wire.call_later,
            on_empty=self._close_if_drained,
            noise=Allowance(limits.burst_of_noise, limits.noise_per_second, clock),
            resets=Allowance(limits.burst_of_resets, limits.resets_per_second, clock),
        )
        self.is_closed = False
        self.is_established = False
        """Whether the peer has shown that it speaks HTTP/2."""
        self._wire = wire
        self._limits = limits
        self._reader = FrameReader(self._on_frame, stopwatch)
        self._control = ControlFrames(self.table, self.outbox, self._pong)
        self._assembly = HeaderAssembly()
        self._is_draining = False

    def open(self) -> None:
        """Announce our settings."""
        limits = self._limits
        announced = {
            Setting.HEADER_TABLE_SIZE: 0,
            Setting.MAX_CONCURRENT_STREAMS: limits.max_streams,
            Setting.INITIAL_WINDOW_SIZE: limits.receive_window,
            Setting.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST_BYTES,
        }
        self.outbox.control(settings(announced))
        if limits.receive_window > DEFAULT_WINDOW:
            self.outbox.control(window_update(0, limits.receive_window - DEFAULT_WINDOW))

    def receive(self, data: bytes) -> bytes:
        """The peer sent these bytes; returns what is to be received in another turn."""
        if self.is_closed:
            return b""
        outbox = self.outbox
        self.table.noise.left += _NOISE_PER_DATA_FRAME * outbox.data_frames
        outbox.data_frames = 0
        outbox.is_collecting = True
        try:
            rest = self._reader.feed(data)
            outbox.check()
        except ConnectionFault as fault:
            self._break_off(fault)
            return b""
        else:
            return rest
        finally:
            outbox.is_collecting = False

    def lost(self) -> None:
        """The connection is gone."""
        self.is_closed = True
        self.table.end_all(lambda stream: stream.abandon(StatusCode.CANCELLED))

    @property
    def newest_idle_stream(self) -> int | None:
        """The last stream served; None while one is open."""
        return None if self.table else self.table.last_served_id

    def ping(self) -> None:
        """Ask for a sign of life."""
        self.outbox.control(frame(PING, 0, 0, _ALIVE))

    def drain(self) -> None:
        """Take no new streams, and close when the last has ended.

        Streams opened before the peer knows are served: the final GOAWAY waits for the answer to
        a ping (RFC 9113 §6.8).
        """
        if self._is_draining or self.is_closed:
            return
        self._is_draining = True
        if self.is_established:
            self.outbox.control(goaway(LARGEST_STREAM, ErrorCode.NO_ERROR))
            self.outbox.control(frame(PING, 0, 0, _DRAINING))
            self._wire.call_later(_DRAINING_SECONDS, self._take_no_streams)
        else:
            self._take_no_streams()

    def cut(self, message: str) -> None:
        """End every stream now, and close."""
        if self.is_closed:
            return
        self.table.takes_streams = False
        self.table.end_all(lambda stream: stream.fail(StatusCode.UNAVAILABLE, message))
        self._close_if_drained()

    def _pong(self, payload: bytes) -> None:
        """The peer answered a ping."""
        if self._is_draining and payload == _DRAINING:
            self._take_no_streams()

    def _on_frame(
        self, kind: int, flags: int, stream_id: int, data: bytes, start: int, end: int
    ) -> None:
        try:
            if self._assembly.is_open or not self.is_established:
                self._on_expected_frame(kind, flags, stream_id, data, start, end)
            elif kind == DATA:
                self.table.data(flags, stream_id, data, start, end)
            elif kind == HEADERS:
                block = self._assembly.headers(flags, stream_id, data, start, end)
                if block is not None:
                    self.table.headers(block)
            elif kind == RST_STREAM:
                self.table.rst_stream(stream_id, data[start:end])
            elif kind == CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
            else:
                self._control.take(kind, flags, stream_id, data[start:end])
        except StreamFault as fault:
            self.table.fault(fault)

    def _on_expected_frame(
        self, kind: int, flags: int, stream_id: int, data: bytes, start: int, end: int
    ) -> None:
        """Where only one kind of frame may come."""
        if self._assembly.is_open:
            block = self._assembly.other(kind, flags, stream_id, data, start, end)
            if block is not None:
                self.table.headers(block)
            return
        if kind != SETTINGS or flags & ACK:  # RFC 9113 §3.4
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS have to come first")
        self.is_established = True
        self._control.take(kind, flags, stream_id, data[start:end])

    def _break_off(self, fault: ConnectionFault) -> None:
        """RFC 9113 §5.4.1."""
        self.is_closed = True
        log.debug("connection broken off", code=fault.code.name, reason=fault.reason)
        self.table.end_all(lambda stream: stream.abandon(StatusCode.CANCELLED))
        self._say_goodbye(fault.code, fault.reason)

    def _take_no_streams(self) -> None:
        if self.is_closed or not self.table.takes_streams:
            return
        self.table.takes_streams = False
        if not self.table:
            self._say_goodbye(ErrorCode.NO_ERROR, "")
        else:
            self.outbox.control(goaway(self.table.last_served_id, ErrorCode.NO_ERROR))

    def _close_if_drained(self) -> None:
        if not self.table.takes_streams and not self.is_closed:
            self._say_goodbye(ErrorCode.NO_ERROR, "")

    def _say_goodbye(self, code: ErrorCode, reason: str) -> None:
        self.outbox.control(goaway(self.table.last_served_id, code, reason))
        self.is_closed = True
        self._wire.close()
