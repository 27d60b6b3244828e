"""A raw keep-alive HTTP/1.1 client for plain pages: 40 microseconds where aiohttp takes 350.

One connection for each page. No task and no future per request: bytes go out when `fetch` is
called, and the reader is called back from the event loop.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from epp.data_layer.connection_budget import REFUSED, ConnectionBudget
from epp.data_layer.http_answer import Answer, AnswerReader, NotUnderstood, TooLarge
from epp.data_layer.page import PageReader, reason_of
from epp.support.addresses import join_host_port

if TYPE_CHECKING:
    from epp.framework.data_layer import HttpTarget
    from epp.support.tasks import TaskOwner

ACCEPT = "text/plain;version=0.0.4, */*;q=0.5"

_PLAIN_PATH = re.compile(r"/[!-~]*")
_PLAIN_HOST = re.compile(r"[0-9A-Za-z.:_-]+")
_OK = 200
_REDIRECTS = frozenset((301, 302, 303, 307, 308))


def is_plain(target: HttpTarget) -> bool:
    """Whether this client can ask for it."""
    return (
        target.scheme == "http"
        and _PLAIN_PATH.fullmatch(target.path) is not None
        and _PLAIN_HOST.fullmatch(target.host) is not None
    )


class RawPage:
    """A page read over one connection, which is opened when needed and kept.

    A kept connection may turn out to be dead only when it is used: then the request is repeated at
    once, one time, on a new one.
    """

    def __init__(
        self,
        target: HttpTarget,
        reader: PageReader,
        tasks: TaskOwner,
        budget: ConnectionBudget,
        on_foreign: Callable[[], None],
    ) -> None:
        self._host = target.host
        self._port = target.port
        self._reader = reader
        self._tasks = tasks
        self._budget = budget
        self._on_foreign = on_foreign
        self._connection: _Connection | None = None
        self._may_repeat = False
        self._request = (
            f"GET {target.path} HTTP/1.1\r\n"
            f"Host: {join_host_port(target.host, target.port)}\r\n"
            f"Accept: {ACCEPT}\r\n"
            "Accept-Encoding: identity\r\n"
            "User-Agent: epp\r\n\r\n"
        ).encode()

    def fetch(self) -> None:
        """Ask for the page."""
        connection = self._connection
        if connection is None:
            self._connect()
        else:
            self._may_repeat = True
            connection.send(self._request)

    def abort(self) -> None:
        """Give up the request in flight; its connection goes with it."""
        if self._connection is not None:
            self._connection.abandon()
            self._connection = None

    close = abort

    def answered(self, answer: Answer) -> None:
        """The connection read an answer."""
        if answer.is_last or self._budget.is_wanted():
            self.abort()
        if answer.status == _OK:
            self._reader.page(answer.body)
        elif answer.status in _REDIRECTS:
            self.foreign()
        else:
            self._reader.failure(f"HTTP status {answer.status}")

    def foreign(self) -> None:
        """The answer needs a client that understands more."""
        self.abort()
        self._on_foreign()

    def broken(self, reason: str, *, was_answering: bool) -> None:
        """The connection ended in the middle of a request."""
        self._connection = None
        if self._may_repeat and not was_answering:
            self._connect()
        else:
            self._reader.failure(reason)

    def lost(self) -> None:
        """The connection ended while nothing was asked."""
        self._connection = None

    def refused(self, reason: str) -> None:
        """The server sent something that can't be a page, or there is no connection to it."""
        self.abort()
        self._reader.failure(reason)

    def _connect(self) -> None:
        self._may_repeat = False
        if not self._budget.take():
            self._reader.failure(REFUSED)
            return
        connection = self._connection = _Connection(self, self._request, self._budget)
        opening = self._tasks.spawn(self._open(connection), name="scrape connection")
        connection.opening = opening
        # Not in the coroutine: one that is cancelled at once never begins.
        opening.add_done_callback(connection.opened)

    async def _open(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: connection, self._host, self._port)
        except (OSError, UnicodeError) as error:
            if connection is self._connection:
                self.refused(reason_of(error))


class _Connection(asyncio.Protocol):
    """One connection; its page is None once nobody is interested any more."""

    def __init__(self, page: RawPage, request: bytes, budget: ConnectionBudget) -> None:
        self._page: RawPage | None = page
        self._first_request = request
        self._budget = budget
        self._transport: asyncio.Transport | None = None
        self._answer = AnswerReader()
        self._is_asking = True
        self.opening: asyncio.Task[None] | None = None

    def send(self, request: bytes) -> None:
        """Ask."""
        assert self._transport is not None
        self._is_asking = True
        self._transport.write(request)

    def abandon(self) -> None:
        """End at once, in silence."""
        self._page = None
        if self._transport is not None:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def opened(self, _: asyncio.Task[None]) -> None:
        """The attempt to connect is over, with or without success."""
        self.opening = None
        if self._transport is None:
            self._budget.give_back()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._page is None:
            self._transport.abort()
        else:
            self._transport.write(self._first_request)

    def data_received(self, data: bytes) -> None:
        page = self._page
        if page is None:
            return
        if not self._is_asking:  # what nobody asked for must not become the next answer
            page.abort()
            return
        try:
            answer = self._answer.feed(data)
        except NotUnderstood:
            page.foreign()
        except TooLarge as error:
            page.refused(str(error))
        else:
            if answer is not None:
                self._is_asking = False
                page.answered(answer)

    def eof_received(self) -> None:
        self._end("the server closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._budget.give_back()
        self._end("the connection was closed" if exc is None else reason_of(exc))

    def _end(self, reason: str) -> None:
        page, self._page = self._page, None
        if page is None:
            return
        if self._transport is not None:
            self._transport.abort()
        if not self._is_asking:
            page.lost()
            return
        answer = None if self._answer.is_untouched else self._answer.finish()
        if answer is not None:
            page.lost()
            page.answered(answer)
        else:
            page.broken(reason, was_answering=not self._answer.is_untouched)
