"""Model servers in one process, each on a port of its own, of which some are always ill.

Prints the ports, then serves pages of metrics until it is killed. SIGUSR1 heals all for good.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import cast

from epp.support.event_loop import run_in_loop
from tests.benchmarks.page_servers import page_of
from tests.fakes.page_server import answer
from tests.fakes.programs.program import Program

PAGE_BYTES = 17_000
HEALTHY_SHARE = 0.6
"""Of all servers, at the worst moment."""
SECONDS_BETWEEN_FAULTS = 1.0
LONGEST_FAULT_SECONDS = 8.0


class Fault(Enum):
    """What a model server can suffer from."""

    HANGS = auto()
    DEAD = auto()
    ANSWERS_500 = auto()
    ANSWERS_GARBAGE = auto()
    SHOWS_NONSENSE = auto()
    BREAKS_OFF = auto()


_PAGE = page_of(PAGE_BYTES)
_PAGES = [answer(_PAGE.replace(b"} 2.0\n", b"} %d.0\n" % waiting)) for waiting in range(4)]
_CUT = _PAGES[0][: PAGE_BYTES // 2]
_ANSWERS = {
    Fault.ANSWERS_500: answer(b"out of memory", "500 Internal Server Error"),
    Fault.ANSWERS_GARBAGE: bytes(range(256)) * 8,
    Fault.SHOWS_NONSENSE: answer(_PAGE.replace(b"} 2.0\n", b"} NaN\n").replace(b"0.25", b"x")),
    Fault.BREAKS_OFF: _CUT,
}


class ModelServer:
    """One port, and how whoever asks there is answered."""

    def __init__(self, rng: random.Random) -> None:
        self.fault: Fault | None = None
        self.port = 0
        self._rng = rng
        self._listener: asyncio.Server | None = None
        self._connections: set[Connection] = set()

    async def listen(self) -> None:
        """Serve, on the same port as before if there was one."""
        loop = asyncio.get_running_loop()
        make: Callable[[], Connection] = lambda: Connection(self, self._connections)  # noqa: E731
        self._listener = await loop.create_server(make, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    def answer(self) -> bytes:
        """What the next request gets; empty while it hangs."""
        if self.fault is None:
            return self._rng.choice(_PAGES)
        return _ANSWERS.get(self.fault, b"")

    async def suffer(self, fault: Fault, seconds: float) -> None:
        """Be ill for a while."""
        self.fault = fault
        if fault is Fault.DEAD and self._listener is not None:
            self._listener.close()
            for connection in tuple(self._connections):
                connection.abort()
        try:
            await asyncio.sleep(seconds)
        finally:
            await self._recover()

    async def _recover(self) -> None:
        was, self.fault = self.fault, None
        if was is Fault.HANGS:
            for connection in tuple(self._connections):
                connection.abort()
        while was is Fault.DEAD:
            with suppress(OSError):  # a connection may have the port for the moment
                await self.listen()
                break
            await asyncio.sleep(0.1)


class Connection(asyncio.Protocol):
    """Answers once for each read."""

    def __init__(self, server: ModelServer, others: set[Connection]) -> None:
        self._server = server
        self._others = others
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._others.add(self)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(self._server.answer())
        if self._server.fault is Fault.BREAKS_OFF:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.discard(self)

    def abort(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()


async def make_ill(servers: list[ModelServer], rng: random.Random) -> None:
    """Give one server after another a fault, until cancelled; then all get well."""
    faults = list(Fault)
    async with asyncio.TaskGroup() as group:
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_FAULTS)
            healthy = [server for server in servers if server.fault is None]
            if len(healthy) > len(servers) * HEALTHY_SHARE:
                seconds = rng.uniform(1, LONGEST_FAULT_SECONDS)
                group.create_task(rng.choice(healthy).suffer(rng.choice(faults), seconds))


async def serve(count: int, seed: int) -> None:
    """Listen on `count` ports for ever."""
    rng = random.Random(seed)
    servers = [ModelServer(rng) for _ in range(count)]
    for server in servers:
        await server.listen()
    calm = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, calm.set)
    print("ports", *[server.port for server in servers], flush=True)
    illness = asyncio.create_task(make_ill(servers, rng))
    await calm.wait()
    illness.cancel()
    await asyncio.wait((illness,))
    print("calm", flush=True)
    await asyncio.Event().wait()


class ModelServers(Program):
    """The process, seen from the test."""

    def __init__(self, folder: Path, count: int, seed: int) -> None:
        command = [sys.executable, "-m", "tests.soak.model_servers", str(count), str(seed)]
        super().__init__("model servers", command, folder / "model-servers.log")

    @property
    def ports(self) -> list[int]:
        """Where they listen, whether they do or not at the moment."""
        return [int(port) for port in self.wait_for_line("ports ").split()[1:]]

    def heal(self) -> None:
        """Have every server healthy from now on."""
        self.signal(signal.SIGUSR1)
        self.wait_for_line("calm")


if __name__ == "__main__":
    run_in_loop(serve(int(sys.argv[1]), int(sys.argv[2])))
