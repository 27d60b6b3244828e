"""Messages that carry a piece of a body, read and written by hand: nearly all that ever come.

Held to protobuf by the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

MAX_CHUNK_BYTES = 62_000
"""Longest body of one answer: some gateways take no message over 64 KiB (protocol §2.3)."""

REQUEST_BODY = b"\x22"
"""First byte of a `ProcessingRequest` with a piece of the request's body: field 4."""
RESPONSE_BODY = b"\x2a"
"""The same of the response's: field 5."""
RESPONSE_HEADERS = b"\x1a"
"""The same of its headers: field 3."""

_BODY_TAG = 0x0A  # field 1 of HttpBody
_END_TAG = 0x10  # field 2
_METADATA = 0x42  # field 8 of ProcessingRequest
_NO_METADATA = b"B\0"  # one without content, as Envoy adds
_LENGTH_DELIMITED = 2
_RESPONSE_BODY = RESPONSE_BODY[0]
_BODIES = (REQUEST_BODY[0], _RESPONSE_BODY)
_BOOLEANS = (0x08, 0x50)  # fields 1 and 10 of ProcessingRequest
_MOST_FIELDS = 16
_SHIFTS = range(0, 35, 7)  # of the five bytes that protobuf reads of a length at most


def read_piece(message: bytes) -> tuple[bytes, bool] | None:
    """The bytes of a message that begins with one of the tags above, and whether they are the
    last; None if more than that is in the message, or it is not written the way protobuf does.

    Metadata beside a piece of the response is passed over: Envoy repeats the pick there."""
    try:
        at, size = 2, message[1]
        if size >= 0x80:
            at, size = _long(message, 1)
        end = at + size
        if (
            end != len(message)
            and message[end:] != _NO_METADATA
            and not (message[0] == _RESPONSE_BODY and _is_metadata(message, end))
        ):
            return None
        if not size:
            return b"", False
        piece = b""
        if message[at] == _BODY_TAG:
            size = message[at + 1]
            if size >= 0x80:
                at, size = _long(message, at + 1)
            else:
                at += 2
            stop = at + size
            piece = message[at:stop]
            if stop == end:
                return piece, False
            at = stop
        if at + 2 == end and message[at] == _END_TAG and message[at + 1] == 1:
            return piece, True
    except IndexError:
        pass  # cut off: protobuf says what is wrong with it
    return None


def _is_metadata(message: bytes, at: int) -> bool:
    """Whether all the rest of a message is a metadata_context."""
    if message[at] != _METADATA:
        return False
    size = message[at + 1]
    at, size = (at + 2, size) if size < 0x80 else _long(message, at + 1)
    return at + size == len(message)


def _long(message: bytes, at: int) -> tuple[int, int]:
    """Where the length that begins `at` ends, and what it says: too much, if it does not end."""
    size, high = message[at] & 0x7F, message[at + 1]
    if high < 0x80:
        return at + 2, size | high << 7
    size = 0
    for shift in _SHIFTS:
        byte = message[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, size
    return at, len(message)


def bytes_besides(message: bytes) -> int:
    """How much of a message is no piece of a body; all of it, where that is not plain to see."""
    besides = size = len(message)
    at = 0
    try:
        for _ in range(_MOST_FIELDS):
            if at == size:
                return besides
            tag = message[at]
            if tag in _BOOLEANS:
                at += 2
                continue
            at, length = (
                _long(message, at + 1) if message[at + 1] >= 0x80 else (at + 2, message[at + 1])
            )
            at += length
            if tag >= 0x80 or tag & 7 != _LENGTH_DELIMITED or at > size:
                return size
            if tag in _BODIES:
                besides -= length
    except IndexError:
        pass
    return size


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_REQUEST_ANSWER = b"\x1a"  # field 3 of ProcessingResponse, length-delimited
_RESPONSE_ANSWER = b"\x22"  # field 4
_RESPONSE = b"\x0a"  # field of BodyResponse
_BODY_MUTATION = b"\x1a"  # of CommonResponse
_STREAMED_RESPONSE = b"\x1a"  # of BodyMutation
_BODY = b"\x0a"  # of StreamedBodyResponse
_END = b"\x10\x01"  # end_of_stream = true


# Pieces of event streams are much alike in length: 0.15 us instead of 2.
@lru_cache(maxsize=1024)
def _head(tag: bytes, size: int, tail_size: int) -> bytes:
    """Tags and lengths of the nested messages, up to where `size` bytes of body begin."""
    head = _BODY + _varint(size) if size else b""
    length = len(head) + size + tail_size
    for outer in (_STREAMED_RESPONSE, _BODY_MUTATION, _RESPONSE, tag):
        prefix = outer + _varint(length)
        head = prefix + head
        length += len(prefix)
    return head


def _chunks(tag: bytes, body: bytes, end: bool) -> Iterable[bytes]:
    size = len(body)
    if size > MAX_CHUNK_BYTES:
        return _pieces(tag, body, end)
    if end:
        return (b"".join((_head(tag, size, len(_END)), body, _END)),)
    return (_head(tag, size, 0) + body,)


def _pieces(tag: bytes, body: bytes, end: bool) -> Iterator[bytes]:
    last = max(len(body) - 1, 0) // MAX_CHUNK_BYTES * MAX_CHUNK_BYTES
    for start in range(0, last, MAX_CHUNK_BYTES):
        yield from _chunks(tag, body[start : start + MAX_CHUNK_BYTES], False)
    yield from _chunks(tag, body[last:], end)


def request_body_chunks(body: bytes, *, end: bool) -> Iterable[bytes]:
    """Answers that give a request body back: one at least, none over `MAX_CHUNK_BYTES`."""
    return _chunks(_REQUEST_ANSWER, body, end)


def response_body_chunks(body: bytes, *, end: bool) -> Iterable[bytes]:
    """The same for a response body."""
    return _chunks(_RESPONSE_ANSWER, body, end)
