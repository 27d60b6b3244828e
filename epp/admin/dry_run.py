"""The body of `POST /decisions/dry-run`: a request as a gateway would have brought it."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import TypeVar

import msgspec
from msgspec.json import Decoder

from epp.framework.errors import PickerError
from epp.framework.headers import Headers
from epp.request_control.incoming import DEFAULT_PATH, IncomingRequest
from epp.support.safe_text import printable

MOST_DRY_RUN_BYTES = 16 << 20
MOST_HEADERS = 128
MOST_LIST_BYTES = 256 << 10
"""Of headers and of the subset: many small values take long to read."""
_MOST_PROBLEM = 500
_MOST_QUOTED = 64

_PATH = re.compile(r"/[!-~]{0,8191}")
_NAME = re.compile(r"[!-9;-~]{1,256}")
_VALUE = re.compile(r"[^\x00\r\n]{0,8192}")


class DryRunError(PickerError):
    """What was sent is no request; names the field, and what is allowed."""


Part = TypeVar("Part")


class DryRun(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A request that is not there."""

    path: str = DEFAULT_PATH
    headers: msgspec.Raw = msgspec.Raw(b"{}")
    """Values by name."""
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """JSON as it would have been sent, byte for byte."""
    body_base64: str | None = None
    """Instead: a body that is no JSON."""
    subset: msgspec.Raw = msgspec.Raw(b"null")
    """A list of what a gateway would allow: `ip` or `ip:port`; null: all endpoints."""


_REQUESTS = Decoder(DryRun)
_HEADERS = Decoder[dict[str, str]](dict[str, str])
_SUBSETS = Decoder[list[str] | None](list[str] | None)


def read_dry_run(content: bytes, received_at: float) -> IncomingRequest:
    """The request that `content` tells of; raises `DryRunError`."""
    asked = _decode("the body", content, _REQUESTS)
    path, headers = _path(asked), _headers(asked)
    subset = _decode_list("subset", asked.subset, _SUBSETS)
    body = _body(asked)
    return IncomingRequest(
        headers=Headers([(":method", b"POST"), (":path", path.encode()), *headers]),
        received_at=received_at,
        body=body,
        subset=subset,
        bodiless=body is None,
        reserve=False,
    )


def checked_path(path: str) -> str:
    """`path`, unless no request could have it; then ValueError."""
    if _PATH.fullmatch(path) is None:
        raise ValueError(
            f"{_quoted(path)} is no path; allowed: / and up to 8191 letters, digits and signs"
        )
    return path


def checked_header(name: str, value: str) -> tuple[str, str]:
    """Both, unless no request could have them; then ValueError."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{_quoted(name)} is no name of a header; allowed: up to 256 letters, digits and signs,"
            " no colon"
        )
    if _VALUE.fullmatch(value) is None:
        raise ValueError(
            f"the value of {_quoted(name)} is none; allowed: one line of up to 8192 characters"
        )
    return name, value


def _path(asked: DryRun) -> str:
    try:
        return checked_path(asked.path)
    except ValueError as error:
        raise DryRunError(f"path: {error}") from None


def _headers(asked: DryRun) -> list[tuple[str, bytes]]:
    values = _decode_list("headers", asked.headers, _HEADERS)
    if len(values) > MOST_HEADERS:
        raise DryRunError(f"headers: {len(values)} of them; allowed: {MOST_HEADERS}")
    try:
        checked = [checked_header(name, value) for name, value in values.items()]
    except ValueError as error:
        raise DryRunError(f"headers: {error}") from None
    return [(name.lower(), value.encode()) for name, value in checked]


def _quoted(text: str) -> str:
    return f"'{printable(text, _MOST_QUOTED)}'"


def _decode_list(what: str, content: msgspec.Raw, decoder: Decoder[Part]) -> Part:
    text = bytes(content)
    if len(text) > MOST_LIST_BYTES:
        raise DryRunError(f"{what}: {len(text)} bytes of JSON; allowed: {MOST_LIST_BYTES}")
    return _decode(what, text, decoder)


def _decode(what: str, content: bytes, decoder: Decoder[Part]) -> Part:
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        text = printable(str(error), _MOST_PROBLEM)
        raise DryRunError(f"{what} can't be read: {text}") from error


def _body(asked: DryRun) -> bytes | None:
    is_json = isinstance(asked.body, msgspec.Raw)
    if asked.body_base64 is None:
        return bytes(asked.body) if isinstance(asked.body, msgspec.Raw) else None
    if is_json:
        raise DryRunError("body and bodyBase64 exclude each other; give one of them")
    try:
        return b64decode(asked.body_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DryRunError(f"bodyBase64: is no base64: {error}") from error
