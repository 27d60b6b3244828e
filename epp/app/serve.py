"""`epp serve`: an Endpoint Picker in the foreground, until a signal."""

from __future__ import annotations

import asyncio
import gc
import signal

import structlog

from epp.app.application import Application
from epp.app.options import ServeOptions
from epp.observability.logging import configure_logging
from epp.support.event_loop import run_in_loop

log = structlog.get_logger(__name__)


def serve(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT; raises `ConfigError` when it can't start."""
    configure_logging(options.log_level, options.log_format)
    run_in_loop(_serve(options))
    return 0


async def _serve(options: ServeOptions) -> None:
    application = Application(options)
    told = asyncio.Event()

    def on_signal() -> None:
        if told.is_set():
            application.stop_at_once()
        told.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await application.start()
    # What start-up left behind lives as long as the process: not worth another look.
    gc.collect()
    gc.freeze()
    await told.wait()
    await application.stop()
