"""Lets connections in, as many as there may be at once."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import structlog

from epp.support.open_files import open_files_limit
from epp.support.tasks import TaskOwner, keep_running
from epp.transport.crowding import (
    CrowdReport,
    HandshakeLimits,
    HandshakePace,
    LimitObserver,
    unobserved,
)

log = structlog.get_logger(__name__)

_SHUTDOWN_SECONDS = 1.0
"""Of TLS, for the peer's last word."""
_WITHOUT_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_SECONDS = 1.0


Connection = TypeVar("Connection", bound=asyncio.Protocol)


class Connections(Protocol[Connection]):
    """Those of one listener."""

    @property
    def count(self) -> int:
        """How many there are, those that are still arriving included."""

    def admit(self) -> Connection:
        """Another one arrives."""

    def make_room(self) -> Connection | None:
        """End one for another that arrives, and say which; None: the newcomer has to go."""

    def arrived(self, connection: Connection) -> None:
        """Its arrival is over, whatever came of it."""


class Acceptor(Generic[Connection]):
    """Accepts what comes to a listening socket. Over the limit, one connection is closed at once:
    another where there is one to be spared, else the one that came.

    Connections count from the moment they are accepted, those in the middle of a TLS handshake
    included, which has to end in time. Of too many handshakes the oldest is given up: an honest one
    takes milliseconds. Those that come too fast wait to be accepted.
    """

    def __init__(
        self,
        listening: socket.socket,
        connections: Connections[Connection],
        *,
        tls: Callable[[], ssl.SSLContext] | None,
        handshake_seconds: float,
        max_connections: int,
        handshakes: HandshakeLimits | None = None,
        observe: LimitObserver = unobserved,
    ) -> None:
        self._listening = listening
        self._connections = connections
        self._tls = tls
        self._handshake_seconds = handshake_seconds if tls is not None else None
        self._shutdown_seconds = _SHUTDOWN_SECONDS if tls is not None else None
        self._max_connections = max_connections
        self._tasks = TaskOwner()
        self._arriving: dict[Connection, socket.socket] = {}
        """Oldest first."""
        self._handshakes = handshakes = handshakes or HandshakeLimits()
        self._max_arriving = min(handshakes.under_way, max(max_connections // 2, 1))
        self._pace = HandshakePace(handshakes)
        self._report = CrowdReport(listening.getsockname()[1], observe)

    def start(self) -> None:
        """Accept from now on."""
        self._tasks.spawn(keep_running("acceptor", self._accept_all), "acceptor")

    async def aclose(self) -> None:
        """Accept no more, and drop those that are still arriving."""
        await self._tasks.aclose()
        self._listening.close()
        while self._arriving:  # whose tasks had not begun
            connection, accepted = self._arriving.popitem()
            accepted.close()
            self._connections.arrived(connection)

    async def _accept_all(self) -> None:
        loop = asyncio.get_running_loop()
        connections = self._connections
        while True:
            accepted = await self._accept(loop)
            if accepted is None:
                continue
            now = loop.time()
            if connections.count >= self._max_connections and not self._make_room(now):
                accepted.close()
            else:
                if self._tls is not None and len(self._arriving) >= self._max_arriving:
                    self._give_up_oldest_handshake(now)
                connection = connections.admit()
                self._arriving[connection] = accepted
                self._tasks.spawn(self._let_in(loop, connection, accepted), "connection")
            # A flood of connections must not keep the loop for itself.
            await asyncio.sleep(0.0 if self._tls is None else self._pause(now))

    def _make_room(self, now: float) -> bool:
        ended = self._connections.make_room()
        self._report.count("connections", self._max_connections, now)
        if ended is not None and (arriving := self._arriving.get(ended)) is not None:
            _fail(arriving)
        return ended is not None

    def _give_up_oldest_handshake(self, now: float) -> None:
        oldest = next(iter(self._arriving))
        _fail(self._arriving.pop(oldest))
        self._report.count("handshakes", self._max_arriving, now)

    def _pause(self, now: float) -> float:
        pause = self._pace.pause(now)
        if pause > 0:
            self._report.count("handshake-rate", self._handshakes.per_second, now)
        return pause

    async def _accept(self, loop: asyncio.AbstractEventLoop) -> socket.socket | None:
        try:
            accepted, _ = await loop.sock_accept(self._listening)
        except OSError as error:  # the connection's, or the system's
            is_ours = error.errno in _WITHOUT_RESOURCES
            if is_ours:
                self._report.count("resources", open_files_limit(), loop.time())
            await asyncio.sleep(_PAUSE_SECONDS if is_ours else 0)
            return None
        with suppress(OSError):
            # Not set by asyncio, as the socket does not say that it is of TCP.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        return accepted

    async def _let_in(
        self, loop: asyncio.AbstractEventLoop, connection: Connection, accepted: socket.socket
    ) -> None:
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=None if self._tls is None else self._tls(),
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=self._shutdown_seconds,
            )
        except OSError as error:  # of TLS, too, and its timeout
            log.debug("a connection ended before it began", error=repr(error))
            if self._tls is not None:
                self._report.count_silently("handshake")
        finally:
            self._arriving.pop(connection, None)
            self._connections.arrived(connection)


def _fail(arriving: socket.socket) -> None:
    """Its handshake ends with an error."""
    with suppress(OSError):
        arriving.shutdown(socket.SHUT_RDWR)
