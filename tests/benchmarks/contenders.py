"""Endpoint Pickers that are compared: how each is started, and who it is in tables."""

from __future__ import annotations

import random
import shlex
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks import cores
from tests.benchmarks.load_generator import Load, LoadError, LoadGenerator, Shape, Target
from tests.benchmarks.page_servers import read_counter
from tests.benchmarks.simulated_pool import SimulatedPool
from tests.fakes.programs.process_stats import cpu_seconds
from tests.fakes.programs.program import DEADLINE_SECONDS, ROOT, Program

# Scraping goes on at the pace of traffic while there is none, so that idle CPU tells its price.
_OURS = (
    "{serve} --transport={transport} --pool-file={{pool}} --bind-address=127.0.0.1"
    " --grpc-port={{port}} --grpc-health-port=0 --metrics-port=0 --admin-port=0"
    " --secure-serving={{secure}} --idle-metrics-interval=50ms --drain-timeout=0s"
)
_SETTLE_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One that takes part."""

    name: str
    command: str
    """In it {port}, {pool}, {endpoints} and {secure} are replaced."""
    folder: Path = ROOT
    """Where it is started."""

    def arguments(self, places: Mapping[str, str]) -> list[str]:
        """The command with everything in its place."""
        arguments = shlex.split(self.command)
        for name, value in places.items():
            arguments = [argument.replace(f"{{{name}}}", value) for argument in arguments]
        return arguments


_SERVE = f"{sys.executable} -m epp serve"


def ours(transport: str) -> Contender:
    """This checkout with one of its transports."""
    return Contender(name=transport, command=_OURS.format(serve=_SERVE, transport=transport))


def before(transport: str, folder: Path) -> Contender:
    """The same of another checkout, with the same Python."""
    return replace(ours(transport), name=f"{transport} before", folder=folder)


def sampled(transport: str, file: Path) -> Contender:
    """This checkout, looked at while it serves; what was seen is in `file` after it has ended."""
    serve = f"{sys.executable} -m tests.benchmarks.sampled_serve {file}"
    return Contender(name="sampled", command=_OURS.format(serve=serve, transport=transport))


def named(text: str) -> Contender:
    """From NAME=COMMAND, as `--against` takes it; raises ValueError."""
    name, is_given, command = text.partition("=")
    if not is_given or "{port}" not in command:
        raise ValueError(f"{text!r}: must be NAME=COMMAND, with {{port}} in the command")
    return Contender(name=name, command=command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What a server did without requests."""

    cpu_seconds: float
    seconds: float
    scrapes: int


class Server(Program):
    """A contender that runs, or is paused while others are measured."""

    def __init__(
        self, contender: Contender, pool: SimulatedPool, folder: Path, *, tls: bool
    ) -> None:
        self._port = _free_port()
        self._pool = pool
        self._tls = tls
        places = {
            "port": str(self._port),
            "pool": str(pool.manifests),
            "endpoints": str(pool.endpoints),
            "secure": str(tls).lower(),
        }
        super().__init__(
            contender.name,
            contender.arguments(places),
            folder / f"{contender.name}.log",
            folder=contender.folder,
        )

    def load(
        self, generator: LoadGenerator, shape: Shape, seconds: float, *, warm_up: float = 0.5
    ) -> Load:
        """Send it requests for a while; raises LoadError when any fails."""
        return generator.run(
            Target(port=self._port, pid=self.pid, tls=self._tls, scrapes=self._pool.scrapes),
            shape,
            seconds=seconds,
            warm_up=warm_up,
        )

    def wait_until_it_picks(self, generator: LoadGenerator) -> None:
        """Ready is who answers."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                self.load(generator, Shape(), 0.2, warm_up=0)
            except LoadError as error:
                if time.monotonic() > deadline or not self.is_running:
                    message = f"{self.name} does not pick: {error}; its output:\n{self.output()}"
                    raise LoadError(message) from None
                time.sleep(0.2)
            else:
                return

    def idle(self, seconds: float) -> Idle:
        """Look at it for a while without requests."""
        cpu, scrapes = cpu_seconds(self.pid), read_counter(self._pool.scrapes)
        started = time.monotonic()
        time.sleep(seconds)
        return Idle(
            cpu_seconds=cpu_seconds(self.pid) - cpu,
            seconds=time.monotonic() - started,
            scrapes=read_counter(self._pool.scrapes) - scrapes,
        )

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Runs for as long as the block."""
        self.resume()
        time.sleep(_SETTLE_SECONDS)
        try:
            yield
        finally:
            self.pause()


@contextmanager
def running(
    contender: Contender, pool: SimulatedPool, folder: Path, *, tls: bool
) -> Iterator[Server]:
    """Serve on the core of servers until the block is left."""
    server = Server(contender, pool, folder, tls=tls)
    with cores.starting_on(cores.OF_SERVERS):
        server.start()
    try:
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    # Below those that systems give to outgoing connections: one of these could take it meanwhile.
    while True:
        port = random.randrange(10_000, 32_768)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
