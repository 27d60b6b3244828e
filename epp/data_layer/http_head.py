"""What the head of an HTTP/1.1 answer says of its body."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_HEAD_BYTES = 64 * 1024

LONGEST_LENGTH = 6
"""Digits of a content-length that may change from answer to answer without a closer look."""

_NAMES = (b"content-length", b"transfer-encoding", b"connection", b"content-encoding")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,%d})(?=\r\n|\Z)" % LONGEST_LENGTH, re.IGNORECASE)
_SWITCHING_PROTOCOLS = 101
_OK = 200
_NO_CONTENT = 204
_NOT_MODIFIED = 304


class NotUnderstood(Exception):
    """The answer is not one this reader knows how to read."""


class TooLarge(Exception):
    """The answer is larger than any page of metrics."""


class Framing(NamedTuple):
    """Status, and how long the body is."""

    status: int
    size: int | None
    chunked: bool
    is_last: bool


def around_length(head: bytes, framing: Framing) -> tuple[bytes, bytes]:
    """What is before and after the length of a page; empty: the head is another kind."""
    found = _LENGTH.search(head)
    if found is None or framing.status != _OK or framing.size is None:
        return b"", b""
    return head[: found.start(1)], head[found.end(1) :] + b"\r\n\r\n"


def framing_of(head: bytes) -> Framing:
    """Read a head without its empty line; raises `NotUnderstood` or `TooLarge`."""
    lines = head.lower().split(b"\r\n")
    version, status = lines[0][7:9], lines[0][9:12]
    if version not in (b"0 ", b"1 ") or not status.isdigit():
        raise NotUnderstood("status line")
    fields: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or name[:1] in (b" ", b"\t"):
            raise NotUnderstood("header line")
        if name in _NAMES:
            if name in fields:
                raise NotUnderstood(f"{name.decode()} more than once")
            fields[name] = value.strip()
    return _framing(int(status), fields, is_old=version == b"0 ")


def _framing(status: int, fields: dict[bytes, bytes], *, is_old: bool) -> Framing:
    if status == _SWITCHING_PROTOCOLS or status < 100:
        raise NotUnderstood(f"status {status}")
    if fields.get(b"content-encoding", b"identity") != b"identity":
        raise NotUnderstood("content-encoding")
    connection = fields.get(b"connection", b"")
    is_last = b"close" in connection or (is_old and b"keep-alive" not in connection)
    coding, length = fields.get(b"transfer-encoding"), fields.get(b"content-length")
    if coding is not None:
        if coding != b"chunked" or length is not None or is_old:
            raise NotUnderstood("transfer-encoding")
        return Framing(status, None, True, is_last)
    if status in (_NO_CONTENT, _NOT_MODIFIED):
        return Framing(status, 0, False, is_last)
    if length is None:
        return Framing(status, None, False, True)
    if not length.isdigit():
        raise NotUnderstood("content-length")
    if len(length) > len(str(MAX_BODY_BYTES)) or int(length) > MAX_BODY_BYTES:
        raise TooLarge(f"more than {MAX_BODY_BYTES} bytes of body")
    return Framing(status, int(length), False, is_last)
