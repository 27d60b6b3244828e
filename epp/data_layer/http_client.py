"""A raw keep-alive HTTP/1.1 client for plain pages: 40 microseconds where aiohttp takes 350.

One connection for each page. No task, no future, no timer and no wake-up of the event loop for each
request: bytes go out when `fetch` is called, and answers are read many at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epp.data_layer.connection import Connection
from epp.data_layer.connection_budget import REFUSED, ConnectionBudget
from epp.data_layer.page import PageReader, reason_of
from epp.support.addresses import join_host_port

if TYPE_CHECKING:
    from epp.data_layer.http_answer import Answer
    from epp.data_layer.inbox import Inbox
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RawClient:
    """What all raw pages share."""

    tasks: TaskOwner
    inbox: Inbox
    budget: ConnectionBudget


class RawPage:
    """A page read over one connection, which is opened when needed and kept.

    A kept connection may turn out to be dead only when it is used: then the request is repeated at
    once, one time, on a new one.
    """

    def __init__(
        self,
        target: HttpTarget,
        reader: PageReader,
        client: RawClient,
        on_foreign: Callable[[], None],
    ) -> None:
        self._host = target.host
        self._port = target.port
        self._reader = reader
        self._client = client
        self._inbox = client.inbox
        self._budget = client.budget
        self._on_foreign = on_foreign
        self._connection: Connection | None = None
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
        self._inbox.refresh()
        connection = self._connection
        if connection is None:
            self._connect()
        else:
            self._may_repeat = True
            connection.ask(self._request)

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
        connection = self._connection = Connection(self, self._inbox, self._budget)
        opening = self._client.tasks.spawn(self._open(connection), name="scrape connection")
        connection.opened_by(opening)

    async def _open(self, connection: Connection) -> None:
        try:
            await connection.open(self._host, self._port, self._request)
        except (OSError, UnicodeError) as error:
            if connection is self._connection:
                self.refused(reason_of(error))
