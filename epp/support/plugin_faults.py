"""What plugins do that must not take the request, the task or the process along."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

PLUGIN_FAULTS: tuple[type[BaseException], ...] = (Exception, asyncio.CancelledError, SystemExit)
"""What a plugin may raise and is contained: `sys.exit()` and a cancellation of its own, too."""

_LAST_WORDS_SECONDS = 0.05


class PluginFault(Exception):
    """A plugin broke its contract; answered by the pool's failure mode."""


class StillRunning(TimeoutError):
    """Something did not end although it was cancelled: it is left behind."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"not done after {seconds:.3g} s, and goes on although cancelled")
        self.seconds = seconds


def is_cancellation(error: BaseException) -> bool:
    """Whether `error` means that the current task is to end, rather than a plugin's own doing."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop: the library's picks need none
        return False
    return task is not None and task.cancelling() > 0


async def finish_within(pending: Awaitable[object], seconds: float) -> None:
    """Wait for a plugin; raises what it raises, or `TimeoutError` when it has been cancelled.

    It runs in a task of its own: what it does to cancellations is nobody else's trouble.
    """
    clock = asyncio.get_running_loop().time
    started = clock()
    task = asyncio.ensure_future(_contained(pending))
    try:
        await asyncio.wait((task,), timeout=seconds)
        if task.done():
            task.result()
            return
        task.cancel()
        await asyncio.wait((task,), timeout=_LAST_WORDS_SECONDS)
    finally:
        task.cancel()
        task.add_done_callback(_hear_out)
    if task.done():
        raise TimeoutError(f"not done within {seconds:g} s")
    raise StillRunning(clock() - started)


async def _contained(pending: Awaitable[object]) -> None:
    try:
        await pending
    except SystemExit as error:  # out of a task it would end the process
        raise RuntimeError("SystemExit") from error


def _hear_out(task: asyncio.Task[None]) -> None:
    """Take the outcome of a task that nobody waits for, so that asyncio does not complain."""
    if not task.cancelled():
        task.exception()
