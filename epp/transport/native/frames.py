"""Frames of HTTP/2 as bytes (RFC 9113 §4 and §6)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER = Struct(">HBBBL")
"""Of a frame: the length in two parts, type, flags, stream."""
HEADER_BYTES = 9
MESSAGE_HEADER = Struct(">HBBBLBL")
"""Of a frame that holds one whole gRPC message: the frame's header, flag and length."""
DEFAULT_FRAME_BYTES = 16_384
"""Largest payload that any peer takes; neither do we send nor take larger ones."""
LARGEST_FRAME_BYTES = (1 << 24) - 1
DEFAULT_WINDOW = 65_535
LARGEST_WINDOW = (1 << 31) - 1
LARGEST_STREAM = (1 << 31) - 1

DATA = 0x0
HEADERS = 0x1
PRIORITY = 0x2
RST_STREAM = 0x3
SETTINGS = 0x4
PUSH_PROMISE = 0x5
PING = 0x6
GOAWAY = 0x7
WINDOW_UPDATE = 0x8
CONTINUATION = 0x9

ACK = 0x1
END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

_LONG = Struct(">L")
_TWO_LONGS = Struct(">LL")
_SETTING = Struct(">HL")


class Setting(IntEnum):
    """Identifiers in SETTINGS (RFC 9113 §6.5.2)."""

    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5
    MAX_HEADER_LIST_SIZE = 0x6


class ErrorCode(IntEnum):
    """Of RST_STREAM and GOAWAY (RFC 9113 §7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class ConnectionFault(Exception):
    """The peer broke a rule that the whole connection depends on (RFC 9113 §5.4.1)."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StreamFault(Exception):
    """The peer broke a rule on one stream (RFC 9113 §5.4.2)."""

    def __init__(self, stream_id: int, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.stream_id = stream_id
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Any frame."""
    size = len(payload)
    return HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def settings(values: dict[Setting, int]) -> bytes:
    """What we announce."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def settings_in(payload: bytes) -> list[tuple[int, int]]:
    """Identifiers and values, in order."""
    return list(_SETTING.iter_unpack(payload))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """End a stream abruptly."""
    return frame(RST_STREAM, 0, stream_id, _LONG.pack(code))


def window_update(stream_id: int, increment: int) -> bytes:
    """Allow the peer to send more; stream 0 is the connection."""
    return frame(WINDOW_UPDATE, 0, stream_id, _LONG.pack(increment))


def goaway(last_stream_id: int, code: ErrorCode, reason: str = "") -> bytes:
    """Accept no stream after `last_stream_id`."""
    return frame(GOAWAY, 0, 0, _TWO_LONGS.pack(last_stream_id, code) + reason.encode()[:200])


SETTINGS_ACK = frame(SETTINGS, ACK, 0)
