"""One HTTP connection of a page: a socket that asks, and reads when there is something to read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from epp.data_layer.http_answer import Answer, AnswerReader
from epp.data_layer.http_head import NotUnderstood, TooLarge
from epp.data_layer.page import reason_of

if TYPE_CHECKING:
    from epp.data_layer.connection_budget import ConnectionBudget
    from epp.data_layer.inbox import Inbox

_Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]

_MOST_BYTES = 128 * 1024
"""That are read at once; nearly all pages are smaller."""


class Asker(Protocol):
    """Who uses a connection."""

    def answered(self, answer: Answer) -> None:
        """The connection read an answer."""

    def foreign(self) -> None:
        """The answer needs a client that understands more."""

    def broken(self, reason: str, *, was_answering: bool) -> None:
        """The connection ended in the middle of a request."""

    def lost(self) -> None:
        """The connection ended while nothing was asked."""

    def refused(self, reason: str) -> None:
        """The server sent something that can't be a page."""


class Connection:
    """Belongs to one asker, who is None once nobody is interested any more.

    Takes its place of the budget when it is made, and gives it back when it has ended.
    """

    __slots__ = (
        "_answer",
        "_asker",
        "_budget",
        "_has_place",
        "_inbox",
        "_opening",
        "_socket",
        "is_asking",
    )

    def __init__(self, asker: Asker, inbox: Inbox, budget: ConnectionBudget) -> None:
        self._asker: Asker | None = asker
        self._inbox = inbox
        self._budget = budget
        self._has_place = True
        self._socket: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._answer = AnswerReader()
        self.is_asking = False

    async def open(self, host: str, port: int, request: bytes) -> None:
        """Connect and ask; raises `OSError`."""
        self._socket = await _connected(host, port)
        self._inbox.add(self._socket, self)
        self.ask(request)

    def opened_by(self, opening: asyncio.Task[None]) -> None:
        """The task that runs `open`."""
        self._opening = opening
        # Not in the coroutine: one that is cancelled at once never begins.
        opening.add_done_callback(self._opened)

    def ask(self, request: bytes) -> None:
        """Send a request, the answer to the one before having come."""
        assert self._socket is not None
        self.is_asking = True
        self._inbox.expect()
        try:
            sent = self._socket.send(request)
        except OSError as error:
            self._end(reason_of(error))
        else:
            if sent < len(request):
                self._end("the server takes no request")

    def read(self) -> None:
        """Take what has come."""
        if self._socket is None:
            return
        try:
            data = self._socket.recv(_MOST_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(reason_of(error))
            return
        if not data:
            self._end("the server closed the connection")
        elif not self.is_asking:  # what nobody asked for must not become the next answer
            self._end("")
        else:
            self._take(data)

    def abandon(self) -> None:
        """End at once, in silence."""
        self._asker = None
        if self._socket is not None:
            self._close()
        elif self._opening is not None:
            self._opening.cancel()

    def _take(self, data: bytes) -> None:
        asker = self._asker
        assert asker is not None
        try:
            answer = self._answer.feed(data)
        except NotUnderstood:
            asker.foreign()
        except TooLarge as error:
            asker.refused(str(error))
        else:
            if answer is not None:
                self._settle()
                asker.answered(answer)

    def _end(self, reason: str) -> None:
        asker, self._asker = self._asker, None
        was_asking = self.is_asking
        self._close()
        assert asker is not None
        if not was_asking:
            asker.lost()
            return
        answer = None if self._answer.is_untouched else self._answer.finish()
        if answer is not None:
            asker.lost()
            asker.answered(answer)
        else:
            asker.broken(reason, was_answering=not self._answer.is_untouched)

    def _settle(self) -> None:
        if self.is_asking:
            self.is_asking = False
            self._inbox.settle()

    def _close(self) -> None:
        self._settle()
        if self._socket is not None:
            self._inbox.remove(self._socket)
            self._socket.close()
            self._socket = None
            self._give_back()

    def _opened(self, _: asyncio.Task[None]) -> None:
        self._opening = None
        if self._socket is None:
            self._give_back()

    def _give_back(self) -> None:
        if self._has_place:
            self._has_place = False
            self._budget.give_back()


async def _connected(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    problem: OSError | None = None
    for family, address in await _addresses(host, port):
        candidate = socket.socket(family, socket.SOCK_STREAM)
        try:
            candidate.setblocking(False)
            candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(candidate, address)
        except OSError as error:
            candidate.close()
            problem = error
        except BaseException:
            candidate.close()
            raise
        else:
            return candidate
    raise problem or OSError("host name without an address")


async def _addresses(host: str, port: int) -> Sequence[tuple[int, _Address]]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host)
    except OSError:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(each[0], each[4]) for each in found]
    return [(family, (host, port))]
