"""A standalone run as a command: signals, messages and exit codes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO, cast

from epp.app.options import ServeOptions
from epp.framework.errors import ConfigError, PickerError
from epp.observability.background_stream import BackgroundStream
from epp.observability.log_level import LogLevelSwitch
from epp.observability.logging import configure_logging
from epp.standalone.envoy_binary import envoy_binary
from epp.standalone.held_stream import HeldStream
from epp.standalone.muted_stream import MutedStream
from epp.standalone.options import StandaloneOptions
from epp.standalone.supervisor import Supervisor
from epp.support.event_loop import run_in_loop

FOLDER = Path(".epp")
KILLED = 130


def run_standalone(options: StandaloneOptions) -> int:
    """Run until a signal asks to end; a second one ends everything at once."""
    envoy = envoy_binary()
    # Read by gRPC when it is imported; else it comments on every child that is started.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    from epp.app import picking
    from epp.app.application import Application

    terminal = BackgroundStream(sys.stdout)
    # Text streams in everything but their static type, as below.
    requests = MutedStream(cast("TextIO", terminal))
    process_log = HeldStream(sys.stderr)
    if options.verbose:
        process_log.release()

    def build_picker(serve_options: ServeOptions) -> Application:
        # What became of a configuration that was changed is what its author waits for.
        level = LogLevelSwitch("info" if options.verbose else "warning", (picking.__name__,))
        configure_logging(
            level.configured, serve_options.log_format, cast("TextIO", process_log), level.talkative
        )
        return Application(
            serve_options, request_log_stream=cast("TextIO", requests), log_level=level
        )

    supervisor = Supervisor(
        options,
        envoy=envoy,
        folder=FOLDER,
        build_picker=build_picker,
        say=_say,
        requests=requests,
        process_log=process_log,
    )
    try:
        run_in_loop(_run(supervisor))
    except ExceptionGroup as group:
        errors = [error for error in _leaves(group) if isinstance(error, PickerError)]
        if not errors:
            raise
        if isinstance(errors[0], ConfigError):
            raise errors[0] from None
        print(f"epp standalone: {errors[0]}", file=sys.stderr)
        return 1
    finally:
        process_log.release()
        terminal.close()
    return 0


async def _run(supervisor: Supervisor) -> None:
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            supervisor.kill()
            os._exit(KILLED)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    await supervisor.run(stop)


def _leaves(group: ExceptionGroup) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _say(text: str) -> None:
    print(text, flush=True)
