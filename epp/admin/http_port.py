"""An HTTP port of the process: pages in, a bound port out."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from epp.admin.http_connections import (
    LIFE_SECONDS,
    MAX_CONNECTIONS,
    HttpConnection,
    HttpConnections,
)
from epp.admin.http_tls import HttpTls, HttpTlsContext
from epp.framework.errors import PortTaken
from epp.transport.acceptor import Acceptor
from epp.transport.crowding import OTHERS_PART, LimitObserver, connections_within, unobserved
from epp.transport.listening import listening_socket

HANDSHAKE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How many connections a port has at once, and when each ends."""

    max_connections: int = MAX_CONNECTIONS
    life_seconds: float = LIFE_SECONDS
    """After its last request came."""
    handshake_seconds: float = HANDSHAKE_SECONDS


class HttpPort:
    """Serves pages on one port; with `tls` it speaks https.

    Certificates that are put into the place of those there are used from the next connection on.
    """

    def __init__(
        self,
        pages: web.Application,
        host: str,
        port: int,
        *,
        port_flag: str,
        tls: HttpTls | None = None,
        limits: HttpLimits | None = None,
        observe_limits: LimitObserver = unobserved,
    ) -> None:
        self._pages = pages
        self._host = host
        self._port = port
        self._port_flag = port_flag
        self._tls = tls
        self._limits = limits or HttpLimits()
        self._observe_limits = observe_limits
        self._context: HttpTlsContext | None = None
        self._acceptor: Acceptor[HttpConnection] | None = None
        self._connections: HttpConnections | None = None

    async def start(self) -> int:
        """Listen; returns the port, which the system chose if it was 0."""
        context = None
        if self._tls is not None:
            context = self._context = await HttpTlsContext.load(self._tls)
        limits = self._limits
        connections = self._connections = HttpConnections(self._pages, limits.life_seconds)
        await connections.start()
        try:
            listening = listening_socket(self._host, self._port, is_tls=self._tls is not None)
        except OSError as error:
            await self.stop()
            raise PortTaken(
                f"{self._port_flag}: can't listen on {self._host}:{self._port}: {error.strerror}"
            ) from error
        self._acceptor = Acceptor(
            listening,
            connections,
            tls=None if context is None else lambda: context.current,
            handshake_seconds=limits.handshake_seconds,
            max_connections=connections_within(limits.max_connections, OTHERS_PART),
            observe=self._observe_limits,
        )
        self._acceptor.start()
        port: int = listening.getsockname()[1]
        return port

    async def stop(self) -> None:
        """Stop listening; answers under way have two seconds to end."""
        if self._acceptor is not None:
            await self._acceptor.aclose()
        if self._connections is not None:
            await self._connections.aclose()
        if self._context is not None:
            await self._context.aclose()
