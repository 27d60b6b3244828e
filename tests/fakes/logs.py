"""Log lines as a test can await them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.typing import EventDict, WrappedLogger

LIBRARIES = (
    "aiohttp",
    "asyncio",
    "grpc",
    "hpack",
    "kubernetes_asyncio",
    "opentelemetry",
    "urllib3",
    "watchfiles",
)


@contextmanager
def logging_as_it_was() -> Iterator[None]:
    """Undo at the end what the block does to the process's logging."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    libraries = {name: logging.getLogger(name).level for name in LIBRARIES}
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, library_level in libraries.items():
            logging.getLogger(name).setLevel(library_level)
        structlog.reset_defaults()


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
