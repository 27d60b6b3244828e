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
    """Serve until SIGTERM or SIGINT, and return the exit code.

    It ends by itself, with a failure, when it was the leader and lost the lease. Raises
    `ConfigError` when it can't start.
    """
    configure_logging(options.log_level, options.log_format)
    return run_in_loop(_serve(options))


async def _serve(options: ServeOptions) -> int:
    end = asyncio.Event()
    application = Application(options, on_lost_lease=end.set)
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
    await application.stop()
    return int(application.has_lost_lease)


async def _freeze(application: Application) -> None:
    """Spare the garbage collector what lives as long as the process: the code, and the pool."""
    _collect_and_freeze()
    await application.wait_synced()
    _collect_and_freeze()


def _collect_and_freeze() -> None:
    gc.collect()
    gc.freeze()
