"""Frames about the connection rather than about one request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.transport.native.frames import (
    ACK,
    DEFAULT_FRAME_BYTES,
    GOAWAY,
    LARGEST_FRAME_BYTES,
    LARGEST_STREAM,
    LARGEST_WINDOW,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    SETTINGS,
    SETTINGS_ACK,
    WINDOW_UPDATE,
    ConnectionFault,
    ErrorCode,
    Setting,
    StreamFault,
    frame,
    settings_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from epp.transport.native.outbox import Outbox
    from epp.transport.native.stream_table import StreamTable

_SETTING_BYTES = 6
_PING_BYTES = 8
_GOAWAY_BYTES = 8
_PRIORITY_BYTES = 5
_WINDOW_UPDATE_BYTES = 4
_LOOKS_PER_NOISE = 16
"""Streams or settings that one frame makes us look at."""


class ControlFrames:
    """Acts on what a connection's peer says about the connection."""

    __slots__ = ("_outbox", "_pong", "_table")

    def __init__(self, table: StreamTable, outbox: Outbox, pong: Callable[[bytes], None]) -> None:
        self._table = table
        self._outbox = outbox
        self._pong = pong
        """Called with the answer to a ping."""

    def take(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """Any frame but DATA, HEADERS, CONTINUATION and RST_STREAM; unknown ones are ignored."""
        self._table.spend_noise()
        if kind == WINDOW_UPDATE:
            self._window_update(stream_id, payload)
        elif kind == PING:
            self._ping(flags, stream_id, payload)
        elif kind == SETTINGS:
            self._settings(flags, stream_id, payload)
        elif kind == PRIORITY:
            self._priority(stream_id, payload)
        elif kind == GOAWAY:
            self._goaway(stream_id, payload)
        elif kind == PUSH_PROMISE:  # RFC 9113 §8.4: a client can't push
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE from a client")

    def _window_update(self, stream_id: int, payload: bytes) -> None:
        """RFC 9113 §6.9."""
        if len(payload) != _WINDOW_UPDATE_BYTES:
            raise _size_fault("WINDOW_UPDATE")
        increment = int.from_bytes(payload, "big") & LARGEST_WINDOW
        if stream_id == 0:
            if increment == 0:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
            self._outbox.widen(increment)
        elif increment == 0:
            self._table.past.check_not_idle(stream_id)
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        else:
            self._table.widen(stream_id, increment)

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        """RFC 9113 §6.7."""
        if len(payload) != _PING_BYTES:
            raise _size_fault("PING")
        _of_connection(stream_id, "PING")
        if flags & ACK:
            self._pong(payload)
        else:
            self._outbox.control(frame(PING, ACK, 0, payload))

    def _settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        """RFC 9113 §6.5."""
        _of_connection(stream_id, "SETTINGS")
        if flags & ACK:
            if payload:
                raise _size_fault("SETTINGS")
            self._table.header_blocks.settings_acknowledged()
            return
        if len(payload) % _SETTING_BYTES:
            raise _size_fault("SETTINGS")
        self._table.spend_noise(len(payload) // _SETTING_BYTES // _LOOKS_PER_NOISE)
        values = dict(_checked(*item) for item in settings_in(payload))
        window = values.get(Setting.INITIAL_WINDOW_SIZE)
        if window is not None and window != self._outbox.initial_window:
            self._table.spend_noise(len(self._table) // _LOOKS_PER_NOISE)
            self._table.change_initial_window(window)
        self._outbox.control(SETTINGS_ACK)

    def _priority(self, stream_id: int, payload: bytes) -> None:
        """RFC 9113 §5.3.2: priorities mean nothing any more, but their form is checked."""
        if stream_id == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        if len(payload) != _PRIORITY_BYTES:
            raise StreamFault(stream_id, ErrorCode.FRAME_SIZE_ERROR, "PRIORITY of a wrong size")
        if int.from_bytes(payload[:4], "big") & LARGEST_STREAM == stream_id:
            reason = "a stream that depends on itself"
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, reason)

    def _goaway(self, stream_id: int, payload: bytes) -> None:
        """RFC 9113 §6.8: about streams that we would open, and we never do."""
        _of_connection(stream_id, "GOAWAY")
        if len(payload) < _GOAWAY_BYTES:
            raise _size_fault("GOAWAY")


def _checked(identifier: int, value: int) -> tuple[int, int]:
    """RFC 9113 §6.5.2."""
    if identifier == Setting.ENABLE_PUSH and value > 1:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH is 0 or 1")
    if identifier == Setting.INITIAL_WINDOW_SIZE and value > LARGEST_WINDOW:
        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "an initial window over 2^31-1")
    if identifier == Setting.MAX_FRAME_SIZE and not (
        DEFAULT_FRAME_BYTES <= value <= LARGEST_FRAME_BYTES
    ):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE out of range")
    return identifier, value


def _of_connection(stream_id: int, name: str) -> None:
    if stream_id != 0:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{name} on a stream")


def _size_fault(name: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"{name} of a wrong size")
