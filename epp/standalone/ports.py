"""Free ports on this machine: the wanted one, else the next that nobody listens on."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from epp.framework.errors import ConfigError

SEARCHED_PORTS = 200


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
