from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that sends and reads bodies as they are."""
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield session


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], object]:
    """Waits for a condition that comes true once bytes have travelled."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - bytes on their way set no event
                await asyncio.sleep(0.001)

    return wait
