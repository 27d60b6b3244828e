"""A simulated server as a process: says when it is ready, ends when told to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading

from epp.simulator.server import serve
from epp.simulator.settings import SimulatorSettings
from epp.support.event_loop import run_in_loop


def run_until_told(settings: SimulatorSettings, *, exit_with_parent: bool) -> int:
    """Serve until SIGTERM or SIGINT, or the end of standard input; the exit code."""
    try:
        run_in_loop(_serve_until_told(settings, exit_with_parent))
    except OSError as error:
        sys.stderr.write(f"epp simulator: can't listen on {settings.host}: {error}\n")
        return 1
    return 0


async def _serve_until_told(settings: SimulatorSettings, exit_with_parent: bool) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    if exit_with_parent:
        # A daemon thread, since not every kind of file can be watched by an event loop.
        watcher = threading.Thread(target=_await_end_of_input, args=(loop, told), daemon=True)
        watcher.start()
    async with serve(settings) as simulator:
        sys.stdout.write(f"simulator ready on {simulator.url}\n")
        sys.stdout.flush()
        await told.wait()


def _await_end_of_input(loop: asyncio.AbstractEventLoop, told: asyncio.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends already
        loop.call_soon_threadsafe(told.set)
