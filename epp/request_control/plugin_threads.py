"""Threads for plugins that block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

MOST_THREADS = 32

Result = TypeVar("Result")


class PluginThreads:
    """The plugins' own: some may never come back, and files, tokens and certificates, which are
    read in asyncio's, must not wait for them."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._executor = ThreadPoolExecutor(most, thread_name_prefix="plugin")
        # Calls wait here rather than in the executor, which would keep those that were given up.
        self._free = asyncio.Semaphore(most)

    async def run(self, call: Callable[[], Result]) -> Result:
        """Run `call` in a thread as soon as there is one; given up, it still keeps its thread."""
        await self._free.acquire()
        future = self._executor.submit(call)
        future.add_done_callback(partial(self._done, asyncio.get_running_loop()))
        return await asyncio.wrap_future(future)

    def _done(self, loop: asyncio.AbstractEventLoop, _: Future[Result]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits for a thread
            loop.call_soon_threadsafe(self._free.release)
