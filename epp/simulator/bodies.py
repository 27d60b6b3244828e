"""JSON bodies, in and out."""

from __future__ import annotations

import zlib
from typing import TypeVar

import msgspec
from aiohttp import web

from epp.framework.errors import ConfigError
from epp.simulator.errors import ApiError

T = TypeVar("T")

_GZIP_OR_ZLIB = (b"\x1f\x8b", b"\x78")
_DETECT_FORMAT = zlib.MAX_WBITS | 32


async def read_json(request: web.Request, type_: type[T]) -> T:
    """The body as `type_`, decompressed if need be; raises `ApiError`."""
    body = await request.read()
    try:
        # JSON starts with neither; the header tells nothing, as the HTTP layer may have inflated.
        if body.startswith(_GZIP_OR_ZLIB):
            body = zlib.decompress(body, _DETECT_FORMAT)
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, zlib.error, ConfigError) as error:
        raise ApiError(400, f"body: {error}") from error


def json_response(body: object, *, status: int = 200) -> web.Response:
    """An answer with `body` as JSON."""
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json"
    )
