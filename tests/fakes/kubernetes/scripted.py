"""An API server of a test's own making."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from epp.kubernetes.client import KubeClient
from tests.fakes.kubernetes.access import plain_client


@asynccontextmanager
async def client_of(application: web.Application) -> AsyncIterator[KubeClient]:
    """A client of the server that answers as `application` does."""
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = plain_client(f"http://127.0.0.1:{runner.addresses[0][1]}")
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()
