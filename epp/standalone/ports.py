"""Free ports on this machine: the wanted one, else the next that nobody listens on."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from epp.framework.errors import ConfigError

SEARCHED_PORTS = 200
_TURN = "\0epp-standalone-starting"
_TURN_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class MovedPort:
    """A port that was taken, and what is used instead."""

    purpose: str
    wanted: int
    given: int


class FreePorts:
    """Hands out each port once, also before anybody listens on it."""

    def __init__(self) -> None:
        self.moved: list[MovedPort] = []
        self._given: set[int] = set()

    def take(self, purpose: str, wanted: int, host: str = "127.0.0.1") -> int:
        """The first free port from `wanted` on; any free port when `wanted` is 0."""
        if wanted == 0:
            return self._take_any(host)
        last = min(wanted + SEARCHED_PORTS, 65536) - 1
        for port in range(wanted, last + 1):
            if port not in self._given and _is_free(host, port):
                if port != wanted:
                    self.moved.append(MovedPort(purpose, wanted, port))
                self._given.add(port)
                return port
        raise ConfigError(f"{purpose}: no free port on {host} from {wanted} to {last}")

    def _take_any(self, host: str) -> int:
        while True:
            with _socket(host) as probe:
                probe.bind((host, 0))
                port: int = probe.getsockname()[1]
            if port not in self._given:
                self._given.add(port)
                return port


@asynccontextmanager
async def starting_alone(longest_wait_seconds: float) -> AsyncIterator[None]:
    """Take turns with other runs on this machine that are starting.

    A port is found free some time before a program listens on it; two runs that start at once would
    find the same ones. The turn is a name in the kernel that goes with its process; systems without
    such names do without.
    """
    with socket.socket(socket.AF_UNIX) as turn:
        if sys.platform == "linux":
            await _bind_when_free(turn, longest_wait_seconds)
        yield


async def _bind_when_free(turn: socket.socket, longest_wait_seconds: float) -> None:
    try:
        async with asyncio.timeout(longest_wait_seconds):
            while True:
                try:
                    turn.bind(_TURN)
                except OSError:
                    await asyncio.sleep(_TURN_POLL_SECONDS)
                else:
                    return
    except TimeoutError:
        return  # somebody hangs at start; a race for ports is better than no start


def _is_free(host: str, port: int) -> bool:
    with _socket(host) as probe:
        # As servers do: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise ConfigError(f"can't listen on {host} port {port}: {error.strerror}") from error
        return True


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
