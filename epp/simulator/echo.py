"""An endpoint that answers with what it got, to show that bytes arrive as they were sent."""

from __future__ import annotations

import hashlib

import msgspec
from aiohttp import web


async def echo(request: web.Request) -> web.StreamResponse:
    """Answer with the same bytes; length, SHA-256 and names of the request headers are headers."""
    chunks = []
    digest = hashlib.sha256()
    async for chunk in request.content.iter_any():
        chunks.append(chunk)
        digest.update(chunk)
    response = web.StreamResponse(
        headers={
            "content-type": request.headers.get("content-type", "application/octet-stream"),
            "x-echo-length": str(sum(map(len, chunks))),
            "x-echo-sha256": digest.hexdigest(),
            "x-echo-headers": msgspec.json.encode(
                [name.decode("latin-1").lower() for name, _ in request.raw_headers]
            ).decode(),
        }
    )
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response
