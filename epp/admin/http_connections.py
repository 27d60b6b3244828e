"""The connections of an HTTP port: few at once, none for ever, and errors that tell little."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

import structlog
from aiohttp import StreamReader, web

from epp.admin.page_headers import BARE_HEADERS

MAX_CONNECTIONS = 100
"""Scrapers keep one each, browsers up to six."""
SHUTDOWN_SECONDS = 2.0
LIFE_SECONDS = 75.0
"""Longer than scrapes are apart, as a rule, so that they go on over one connection."""
SPARE_BYTES = 256 << 10
"""Read of a body after the answer, which a peer that still sends might lose otherwise."""

_CONTINUE = "100-continue"

log = structlog.get_logger(__name__)


class HttpConnections:
    """Every one ends `life_seconds` after its last request came, whatever it is in the middle of:
    a head or a body that trickles in, an answer that is not read, or nothing at all."""

    def __init__(self, pages: web.Application, life_seconds: float) -> None:
        self._life_seconds = life_seconds
        self._ends: dict[HttpConnection, asyncio.TimerHandle] = {}
        """In the order of their last requests."""
        self._runner = web.AppRunner(pages, shutdown_timeout=SHUTDOWN_SECONDS)

    async def start(self) -> None:
        """Get ready for the first."""
        await self._runner.setup()
        assert self._runner.server is not None
        self._server = self._runner.server
        self._answer, self._server.request_handler = self._server.request_handler, self._handle

    async def aclose(self) -> None:
        """End all; answers under way have two seconds for it."""
        await self._runner.cleanup()

    @property
    def count(self) -> int:
        """How many there are, those that are still arriving included."""
        return len(self._ends)

    def admit(self) -> HttpConnection:
        """Another one arrives."""
        connection = HttpConnection(self._server, self._forget)
        self._prolong(connection)
        return connection

    def make_room(self) -> HttpConnection | None:
        """End the one that has been silent longest: a scrape that comes has more to say."""
        silent = next(iter(self._ends), None)
        if silent is not None:
            self._forget(silent)
            silent.abort()
        return silent

    def arrived(self, connection: HttpConnection) -> None:
        """Its arrival is over, whatever came of it."""
        if connection.transport is None:
            self._forget(connection)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if isinstance(request.protocol, HttpConnection):
            self._prolong(request.protocol)
        if request.headers.get("Expect", _CONTINUE).lower() != _CONTINUE:
            # aiohttp would quote it, and fail where it is no text.
            return _bare_answer(HTTPStatus.EXPECTATION_FAILED)
        return await self._answer(request)

    def _prolong(self, connection: HttpConnection) -> None:
        self._forget(connection)
        loop = asyncio.get_running_loop()
        self._ends[connection] = loop.call_later(self._life_seconds, connection.abort)

    def _forget(self, connection: HttpConnection) -> None:
        end = self._ends.pop(connection, None)
        if end is not None:
            end.cancel()


class HttpConnection(web.RequestHandler):
    """One connection, which tells when it ends."""

    __slots__ = ("_on_lost", "_socket", "_spare_bytes", "_unread")

    def __init__(self, server: web.Server, on_lost: Callable[[HttpConnection], None]) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None: no log
            # Of any request, to any page: a few megabytes would grow to gigabytes, in the loop.
            auto_decompress=False,
        )
        self._on_lost = on_lost
        self._socket: asyncio.Transport | None = None
        self._unread: StreamReader | None = None
        """The body of the request that was answered last."""
        self._spare_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's inherits from nothing
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._on_lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # aiohttp reads on after an answer, for seconds and as fast as the peer sends.
        if self._unread is not None and not self._unread.is_eof():
            self._spare_bytes -= len(data)
            if self._spare_bytes < 0:
                self.abort()
                return
        super().data_received(data)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        finished = await super().finish_response(request, resp, start_time)
        self._unread, self._spare_bytes = request.content, SPARE_BYTES
        return finished

    def abort(self) -> None:
        """End it at once, with what was not read yet."""
        if self._socket is not None:
            self._socket.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what could not be answered. aiohttp would quote a request that is no HTTP, values
        of headers included, to the peer and in the log, and log every peer that leaves early."""
        is_gone = self.transport is None or self.transport.is_closing()
        if is_gone and isinstance(exc, ConnectionError):
            raise exc  # which ends the connection without a word
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            answer = super().handle_error(request, status, exc, message)
            answer.headers.update(BARE_HEADERS)
            return answer
        log.debug("a request is no HTTP", error=type(exc).__name__)
        answer = _bare_answer(HTTPStatus(status))
        answer.force_close()
        return answer


def _bare_answer(status: HTTPStatus) -> web.StreamResponse:
    return web.Response(
        status=status, text=f"{status.value}: {status.phrase}", headers=BARE_HEADERS
    )
