"""Log lines as a test can await them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.typing import EventDict, WrappedLogger


@contextmanager
def awaitable_logs() -> Iterator[asyncio.Queue[EventDict]]:
    """A queue that gets every log line of the block."""
    lines: asyncio.Queue[EventDict] = asyncio.Queue()

    def keep(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
        lines.put_nowait(event)
        raise structlog.DropEvent

    processors = structlog.get_config()["processors"]
    configured = processors.copy()
    processors[:] = [keep]
    try:
        yield lines
    finally:
        processors[:] = configured


async def until_logged(lines: asyncio.Queue[EventDict], event: str) -> EventDict:
    """The next line with that event."""
    while True:
        line = await lines.get()
        if line["event"] == event:
            return line
