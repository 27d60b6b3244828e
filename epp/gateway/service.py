"""The ext_proc service: makes a transaction per stream and watches over all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from epp.gateway.health import EXT_PROC_SERVICE
from epp.gateway.rejections import body_stopped
from epp.gateway.stream import Transaction

if TYPE_CHECKING:
    from epp.gateway.context import GatewayContext
    from epp.transport.streams import Outlet

SERVICE_NAME = EXT_PROC_SERVICE
METHOD_NAME = "Process"
METHOD = f"/{SERVICE_NAME}/{METHOD_NAME}"
UNREAD_SECONDS = 10.0
"""After which an answer that is not taken is no answer on its way any more."""
_PAUSE_SECONDS = 1.0


class ExternalProcessor:
    """Handles the streams of a server. Called as the factory of stream handlers."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._open: set[Transaction] = set()
        self._silent: dict[Transaction, float] = {}
        """Those without a message when they were looked at last, and since when."""
        self._nothing_until = float("-inf")
        """Until then there is no use in looking for bodies to let go of."""
        context.guard.make_room = self.make_room

    def __call__(self, outlet: Outlet) -> Transaction:
        """The handler of a new stream."""
        transaction = Transaction(outlet, self._context, self._closed)
        self._open.add(transaction)
        self._context.guard.streams += 1
        return transaction

    def _closed(self, transaction: Transaction) -> None:
        self._open.discard(transaction)
        self._context.guard.streams -= 1

    async def run(self) -> None:
        """End streams on which nothing comes, for ever (decision 2)."""
        timeout = self._context.settings.body_idle_timeout
        while True:
            await asyncio.sleep(min(1.0, timeout / 4))
            self.end_idle(self._context.now())

    def end_idle(self, now: float) -> None:
        """Answer 408 where nothing of a body came within the timeout, or end what never began."""
        timeout = self._context.settings.body_idle_timeout
        silent: dict[Transaction, float] = {}
        for transaction in list(self._open):
            if transaction.is_silent:
                silent[transaction] = first_seen = self._silent.get(transaction, now)
                if now - first_seen > timeout:
                    transaction.abort("no message came")
                continue
            since = transaction.idle_since()
            if since is not None and now - since > timeout:
                transaction.reject(body_stopped(timeout))
        self._silent = silent

    def make_room(self, size: int) -> None:
        """Let go of the longest bodies until `size` bytes are free: one peer, or a few requests,
        must not take what all others need."""
        now = self._context.now()
        if now < self._nothing_until:
            return
        pressure, signal = self._context.guard.buffer_pressure()
        long_ago = now - UNREAD_SECONDS
        held = [(each.held_bytes(long_ago), each) for each in self._open]
        for bytes_held, transaction in sorted(held, key=_bytes_held, reverse=True):
            if size <= 0 or not bytes_held:
                break
            transaction.make_room(pressure, signal)
            size -= bytes_held
        if size > 0:
            self._nothing_until = now + _PAUSE_SECONDS

    def abort_all(self) -> None:
        """Give up what is left at the end of the shutdown grace."""
        for transaction in list(self._open):
            transaction.abort("the endpoint picker is shutting down")


def _bytes_held(entry: tuple[int, Transaction]) -> int:
    return entry[0]
