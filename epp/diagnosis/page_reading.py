"""Reading what somebody answers who may be somebody else than expected, and never end."""

from __future__ import annotations

import aiohttp

MOST_PAGE_BYTES = 64 << 20
_PIECE = 1 << 16


async def read_at_most(response: aiohttp.ClientResponse, most: int = MOST_PAGE_BYTES) -> bytes:
    """The body; of one that is longer than `most` bytes, one more than that."""
    content = bytearray()
    async for piece in response.content.iter_chunked(_PIECE):
        content += piece
        if len(content) > most:
            break
    return bytes(content[: most + 1])
