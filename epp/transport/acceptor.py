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

from epp.support.tasks import TaskOwner, keep_running

log = structlog.get_logger(__name__)

_SHUTDOWN_SECONDS = 1.0
"""Of TLS, for the peer's last word."""
_WITHOUT_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_SECONDS = 1.0
_SECONDS_BETWEEN_WARNINGS = 60.0


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
    included, which has to end in time.
    """

    def __init__(
        self,
        listening: socket.socket,
        connections: Connections[Connection],
        *,
        tls: Callable[[], ssl.SSLContext] | None,
        handshake_seconds: float,
        max_connections: int,
    ) -> None:
        self._listening = listening
        self._connections = connections
        self._tls = tls
        self._handshake_seconds = handshake_seconds if tls is not None else None
        self._shutdown_seconds = _SHUTDOWN_SECONDS if tls is not None else None
        self._max_connections = max_connections
        self._tasks = TaskOwner()
        self._arriving: dict[Connection, socket.socket] = {}
        self._excess = _Excess(listening.getsockname()[1], max_connections)

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
            if connections.count >= self._max_connections and not self._make_room(loop.time()):
                accepted.close()
            else:
                connection = connections.admit()
                self._arriving[connection] = accepted
                self._tasks.spawn(self._let_in(loop, connection, accepted), "connection")
            await asyncio.sleep(0)  # a flood of connections must not keep the loop for itself

    def _make_room(self, now: float) -> bool:
        ended = self._connections.make_room()
        self._excess.count(now)
        if ended is not None and (arriving := self._arriving.get(ended)) is not None:
            with suppress(OSError):
                arriving.shutdown(socket.SHUT_RDWR)  # its handshake fails
        return ended is not None

    async def _accept(self, loop: asyncio.AbstractEventLoop) -> socket.socket | None:
        try:
            accepted, _ = await loop.sock_accept(self._listening)
        except OSError as error:  # the connection's, or the system's
            is_ours = error.errno in _WITHOUT_RESOURCES
            if is_ours:
                log.warning("connections can't be accepted for now", error=error.strerror)
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
        finally:
            self._arriving.pop(connection, None)
            self._connections.arrived(connection)


class _Excess:
    """Tells of connections over the limit, but not of each."""

    def __init__(self, port: int, limit: int) -> None:
        self._port = port
        self._limit = limit
        self._closed = 0
        self._silent_until = float("-inf")

    def count(self, now: float) -> None:
        """One more was closed."""
        self._closed += 1
        if now >= self._silent_until:
            self._silent_until = now + _SECONDS_BETWEEN_WARNINGS
            log.warning(
                "too many connections, for each that comes one is closed",
                port=self._port,
                limit=self._limit,
                closed=self._closed,
            )
            self._closed = 0
