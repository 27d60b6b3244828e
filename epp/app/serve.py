"""`epp serve`: an Endpoint Picker in the foreground, until a signal."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from typing import TextIO, cast

import structlog

from epp.app.application import Application
from epp.app.options import ServeOptions
from epp.observability.background_stream import BackgroundStream
from epp.observability.log_level import LogLevelSwitch
from epp.observability.logging import configure_logging
from epp.support.event_loop import run_in_loop

log = structlog.get_logger(__name__)


MARGIN_SECONDS = 5.0
"""Time for the end beyond what was asked for; then the process ends whatever goes on in it."""


def serve(options: ServeOptions, margin_seconds: float = MARGIN_SECONDS) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code.

    It ends by itself, with a failure, when it was the leader and lost the lease. Raises
    `ConfigError` when it can't start.
    """
    level = LogLevelSwitch(options.log_level)
    # Whoever reads the log may stall: a full pipe would hold up requests, probes and the end.
    lines = BackgroundStream(sys.stderr)
    # A text stream in everything but its static type.
    configure_logging(level.configured, options.log_format, cast("TextIO", lines))
    try:
        return run_in_loop(_serve(options, level, margin_seconds, lines))
    finally:
        lines.drain()


async def _serve(
    options: ServeOptions, level: LogLevelSwitch, margin_seconds: float, lines: BackgroundStream
) -> int:
    end = asyncio.Event()
    application = Application(options, on_lost_lease=end.set, log_level=level)
    has_signal = False

    def on_signal() -> None:
        nonlocal has_signal
        if has_signal:
            application.stop_at_once()
        has_signal = True
        end.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await application.start()
    freezing = asyncio.create_task(_freeze(application))
    await end.wait()
    freezing.cancel()
    _end_at_the_latest(options.drain_timeout + options.shutdown_grace + margin_seconds, lines)
    await application.stop()
    return int(application.has_lost_lease)


def _end_at_the_latest(seconds: float, lines: BackgroundStream) -> None:
    """Plugins can have threads, and tasks that go on although they are cancelled."""
    timer = threading.Timer(seconds, _end_now, (lines,))
    timer.daemon = True
    timer.start()


def _end_now(lines: BackgroundStream) -> None:
    names = [thread.name for thread in threading.enumerate() if not thread.daemon]
    log.error("ended by force: something in this process goes on", threads=names)
    lines.drain()
    os._exit(1)


async def _freeze(application: Application) -> None:
    """Spare the garbage collector what lives as long as the process: the code, and the pool."""
    _collect_and_freeze()
    await application.wait_synced()
    _collect_and_freeze()


def _collect_and_freeze() -> None:
    gc.collect()
    gc.freeze()
