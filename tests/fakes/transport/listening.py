"""Servers that serve for as long as a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from epp.app.stream_ports import StreamServer


@asynccontextmanager
async def listening(server: StreamServer) -> AsyncIterator[int]:
    """Serve until the block is left; gives the port."""
    port = await server.start()
    try:
        yield port
    finally:
        await server.stop(0)
