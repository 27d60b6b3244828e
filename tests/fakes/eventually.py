"""Waiting for something that no event tells of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def eventually(claim: Callable[[], bool], timeout_seconds: float = 10.0) -> None:
    """Return once `claim` holds; fails with TimeoutError when it never does."""
    async with asyncio.timeout(timeout_seconds):
        while not claim():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)
