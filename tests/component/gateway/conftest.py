from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.pickers.picker import Picker, running_picker


@pytest.fixture
async def picker() -> AsyncIterator[Picker]:
    """One endpoint, 10.0.0.1:8000, FailClose."""
    async with running_picker() as running:
        yield running
        await running.settled()


@pytest.fixture
async def two_endpoints() -> AsyncIterator[Picker]:
    async with running_picker(("10.0.0.1:8000", "10.0.0.2:8000")) as running:
        yield running
        await running.settled()
