from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from epp.simulator.server import RunningSimulator, serve
from epp.simulator.settings import SimulatorSettings


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that sends and reads bodies as they are."""
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield session


@pytest.fixture
async def simulator() -> AsyncIterator[RunningSimulator]:
    """A model server as it is without flags."""
    async with serve(SimulatorSettings(port=0)) as running:
        yield running


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], object]:
    """Waits for a condition that comes true once bytes have travelled."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - bytes on their way set no event
                await asyncio.sleep(0.001)

    return wait
