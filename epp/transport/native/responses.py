"""Header blocks of answers, made of literals that no table remembers (RFC 7541 §6.2.2)."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote_from_bytes

from epp.transport.native.frames import END_HEADERS, END_STREAM, HEADERS, frame
from epp.transport.streams import StatusCode

_STATUS_NAME = 8
"""Of `:status` in the static table, whose entry there means 200."""
_CONTENT_TYPE_NAME = 31
_ALLOW_NAME = 22
_MESSAGE_BYTES = 4096
TABLE_GIVEN_UP = b"\x20"
"""A size update to 0, due before our first block whatever the peer allows (RFC 7541 §4.2)."""


def _integer(value: int, prefix_bits: int, first: int = 0) -> bytes:
    """RFC 7541 §5.1."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes((first | value,))
    encoded = bytearray((first | most,))
    value -= most
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _text(value: bytes) -> bytes:
    return _integer(len(value), 7) + value


def _known(name: int, value: bytes) -> bytes:
    return _integer(name, 4) + _text(value)


def _field(name: bytes, value: bytes) -> bytes:
    return b"\x00" + _text(name) + _text(value)


_HEAD = b"\x88" + _known(_CONTENT_TYPE_NAME, b"application/grpc")
_OK_TRAILERS = _field(b"grpc-status", b"0")
_ACCEPTED = _field(b"grpc-accept-encoding", b"identity")
_TABLE_GIVEN_UP_OR_NOT = (b"", TABLE_GIVEN_UP)


def response_head(stream_id: int, is_first_block: bool) -> bytes:
    """The HEADERS frame before the first message."""
    block = _TABLE_GIVEN_UP_OR_NOT[is_first_block] + _HEAD
    return frame(HEADERS, END_HEADERS, stream_id, block)


def trailers(stream_id: int, code: StatusCode, message: str) -> bytes:
    """The HEADERS frame that ends a stream after its messages."""
    return frame(HEADERS, END_HEADERS | END_STREAM, stream_id, _status(code, message))


def trailers_only(stream_id: int, code: StatusCode, message: str, is_first_block: bool) -> bytes:
    """The one HEADERS frame of an answer without messages."""
    block = _TABLE_GIVEN_UP_OR_NOT[is_first_block] + _HEAD + _status(code, message)
    return frame(HEADERS, END_HEADERS | END_STREAM, stream_id, block)


def plain_head(stream_id: int, status: int, is_first_block: bool, end: bool) -> bytes:
    """The HEADERS frame of an answer to what is not gRPC."""
    block = _TABLE_GIVEN_UP_OR_NOT[is_first_block] + _known(_STATUS_NAME, str(status).encode())
    block += _known(_CONTENT_TYPE_NAME, b"text/plain")
    if status == 405:
        block += _known(_ALLOW_NAME, b"POST")
    return frame(HEADERS, END_HEADERS | END_STREAM if end else END_HEADERS, stream_id, block)


def _status(code: StatusCode, message: str) -> bytes:
    if code is StatusCode.OK and not message:
        return _OK_TRAILERS
    return _failure(code, message)


@lru_cache(maxsize=64)
def _failure(code: StatusCode, message: str) -> bytes:
    block = _field(b"grpc-status", str(int(code)).encode())
    if message:
        block += _field(b"grpc-message", _percent_encoded(message))
    if code is StatusCode.UNIMPLEMENTED:
        block += _ACCEPTED
    return block


def _percent_encoded(message: str) -> bytes:
    """As the gRPC specification has it: printable ASCII stays, but for the percent sign."""
    printable = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
    encoded = message.encode("utf-8", "replace")
    while True:
        quoted = quote_from_bytes(encoded, printable)
        if len(quoted) <= _MESSAGE_BYTES:
            return quoted.encode()
        encoded = encoded[: len(encoded) // 2]
