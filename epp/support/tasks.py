"""Owners of tasks, so that none is lost and none fails in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from functools import partial
from typing import Any, TypeVar

import structlog

from epp.support.wordless import kind_of, wordless_traceback

_T = TypeVar("_T")

log = structlog.get_logger(__name__)


async def keep_running(
    name: str,
    serve: Callable[[], Awaitable[None]],
    *,
    first_pause: float = 0.1,
    longest_pause: float = 30.0,
) -> None:
    """Run `serve` for ever; after a failure wait, doubling the pause.

    A run that lasted longer than the longest pause counts as a success, like one that returned.
    What an exception says may quote a request: its kind is told, and the lines of code it came
    from unless they were told last.
    """
    clock = asyncio.get_running_loop().time
    pause, told = first_pause, ""
    while True:
        started = clock()
        try:
            await serve()
        except Exception as error:  # noqa: BLE001 - the supervisor is the last line of defence
            if clock() - started > longest_pause:
                pause = first_pause
            kind = kind_of(error)
            where = {} if kind == told else {"exception": wordless_traceback(error)}
            told = kind
            log.warning("task failed", task=name, error=kind, retry_in=pause, **where)
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest_pause)
        else:
            pause, told = first_pause, ""
            await asyncio.sleep(pause)  # a `serve` that returns at once must not spin


def completed(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """The result of a coroutine that has nothing to wait for, at once."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine waited although it has nothing to wait for")


async def stepped(steps: Generator[None, None, _T], *, in_turns: bool) -> _T:
    """The result of work in steps, after each of which others have their turn if wanted."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: _T = done.value
            return result
        if in_turns:
            await asyncio.sleep(0)


class TaskOwner:
    """Owns short tasks: logs their failures, ends those that are left when it is closed."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(
        self,
        coroutine: Coroutine[Any, Any, _T],
        name: str,
        log_values: Callable[[], Mapping[str, str]] = dict,
    ) -> asyncio.Task[_T]:
        """Start the coroutine as a task that may be cancelled, but need not be awaited.

        `log_values` are what the log says of it when it fails, beside its name.
        """
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, log_values))
        return task

    async def aclose(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, log_values: Callable[[], Mapping[str, str]], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task failed", task=task.get_name(), exc_info=error, **log_values())
