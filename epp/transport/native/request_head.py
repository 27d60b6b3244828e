"""The headers that open a stream, as a verdict: which method, until when, or why not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_FORBIDDEN_IN_VALUE = re.compile(rb"[\0\r\n]|^[ \t]|[ \t]$")
_CONTENT_TYPE = re.compile(rb"application/grpc(?:[+;].*)?", re.DOTALL | re.IGNORECASE)
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_LONGEST_TIMEOUT = 1e7
"""Seconds, some months; who allows more than that has no deadline."""
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_REQUEST_PSEUDO = {b":method", b":scheme", b":path", b":authority"}
_OF_CONNECTIONS = {
    b"connection",
    b"proxy-connection",
    b"keep-alive",
    b"transfer-encoding",
    b"upgrade",
}


class RequestHead(NamedTuple):
    """What a stream's first header block says."""

    path: bytes = b""
    timeout: float | None = None
    content_length: int = -1
    """Bytes of DATA to come; negative when it was not said."""
    is_identity: bool = True
    """Whether messages can't come compressed."""
    malformed: str = ""
    """Which rule of RFC 9113 §8 was broken; the stream is reset."""
    refusal: int = 0
    """The HTTP status for a request that is not gRPC."""
    has_body: bool = True
    """Whether that answer may have one."""
    bad_timeout: bool = False


HEADERS_TOO_LARGE = RequestHead(refusal=431)


def read_request_head(headers: Iterable[tuple[bytes, bytes]]) -> RequestHead:
    """Judge a request's headers."""
    values: dict[bytes, bytes] = {}
    is_regular = False
    for name, value in headers:
        if name[:1] == b":":
            if is_regular or name in values or name not in _REQUEST_PSEUDO:
                return RequestHead(malformed="a pseudo-header unknown, twice or behind others")
        else:
            is_regular = True
        if fault := field_fault(name, value):
            return RequestHead(malformed=fault)
        values[name] = value
    if not (values.get(b":method") and values.get(b":scheme") and values.get(b":path")):
        return RequestHead(malformed="a pseudo-header is missing")  # RFC 9113 §8.3.1
    length = values.get(b"content-length", b"")
    if length and not (length.isdigit() and len(length) < 19):
        return RequestHead(malformed="content-length is no number")
    return _judge(values, int(length) if length else -1)


def field_fault(name: bytes, value: bytes) -> str:
    """What is wrong with one field (RFC 9113 §8.2)."""
    if not _TOKEN.fullmatch(name, 1 if name[:1] == b":" else 0):
        return "a field name that is none, or not in lower case"
    if _FORBIDDEN_IN_VALUE.search(value):
        return "a field value with forbidden characters"
    if name in _OF_CONNECTIONS or (name == b"te" and value != b"trailers"):
        return "a field of connections"
    return ""


def trailers_fault(trailers: Iterable[tuple[bytes, bytes]]) -> str:
    """What is wrong with trailers (RFC 9113 §8.1)."""
    for name, value in trailers:
        if name[:1] == b":":
            return "a pseudo-header in trailers"
        if fault := field_fault(name, value):
            return fault
    return ""


def _judge(values: dict[bytes, bytes], content_length: int) -> RequestHead:
    method = values[b":method"]
    refusal = 0
    if method != b"POST":
        refusal = 405
    elif not _CONTENT_TYPE.fullmatch(values.get(b"content-type", b"")):
        refusal = 415
    timeout = values.get(b"grpc-timeout")
    parts = None if timeout is None else _TIMEOUT.fullmatch(timeout)
    return RequestHead(
        path=values[b":path"],
        timeout=_seconds(parts) if parts is not None else None,
        content_length=content_length,
        is_identity=values.get(b"grpc-encoding", b"identity") == b"identity",
        refusal=refusal,
        has_body=method != b"HEAD",
        bad_timeout=timeout is not None and parts is None,
    )


def _seconds(parts: re.Match[bytes]) -> float | None:
    seconds = int(parts[1]) * _SECONDS[parts[2]]
    return seconds if seconds <= _LONGEST_TIMEOUT else None
