"""The event loop of a process: uvloop where it is installed, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from epp.support.loop_faults import tell_of_fault
from epp.support.open_files import raise_open_files_limit

Result = TypeVar("Result")


def run_in_loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` in a new event loop, as `asyncio.run` does, with all the files it may open."""
    raise_open_files_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.get_loop().set_exception_handler(tell_of_fault)
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
