"""The body of `POST /decisions/dry-run`: a request as a gateway would have brought it."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Annotated

import msgspec

from epp.framework.errors import PickerError
from epp.framework.headers import Headers
from epp.request_control.incoming import DEFAULT_PATH, IncomingRequest

MOST_DRY_RUN_BYTES = 16 << 20
MOST_HEADERS = 128

Name = Annotated[str, msgspec.Meta(pattern=r"^[!-9;-~]+\Z", max_length=256)]
Value = Annotated[str, msgspec.Meta(pattern=r"^[^\x00\r\n]*\Z", max_length=8192)]
Path = Annotated[str, msgspec.Meta(pattern=r"^/[!-~]*\Z", max_length=8192)]


class DryRunError(PickerError):
    """What was sent is no request; names the field, and what is allowed."""


class DryRun(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A request that is not there."""

    path: Path = DEFAULT_PATH
    headers: Annotated[dict[Name, Value], msgspec.Meta(max_length=MOST_HEADERS)] = {}
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """JSON as it would have been sent, byte for byte."""
    body_base64: str | None = None
    """Instead: a body that is no JSON."""
    subset: list[str] | None = None
    """What a gateway would allow: `ip` or `ip:port`; None: all endpoints."""


def read_dry_run(content: bytes, received_at: float) -> IncomingRequest:
    """The request that `content` tells of; raises `DryRunError`."""
    try:
        asked = msgspec.json.decode(content, type=DryRun)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DryRunError(f"the body can't be read: {error}") from error
    headers = Headers(
        [
            (":method", b"POST"),
            (":path", asked.path.encode()),
            *((name.lower(), value.encode()) for name, value in asked.headers.items()),
        ]
    )
    body = _body(asked)
    return IncomingRequest(
        headers=headers,
        received_at=received_at,
        body=body,
        subset=asked.subset,
        bodiless=body is None,
        reserve=False,
    )


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
