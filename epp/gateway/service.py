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


class ExternalProcessor:
    """Handles the streams of a server. Called as the factory of stream handlers."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._open: set[Transaction] = set()

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
        """End requests whose body stopped coming, for ever (decision 2)."""
        timeout = self._context.settings.body_idle_timeout
        while True:
            await asyncio.sleep(min(1.0, timeout / 4))
            self.end_idle(self._context.now())

    def end_idle(self, now: float) -> None:
        """Answer 408 where nothing of a body came within the timeout."""
        timeout = self._context.settings.body_idle_timeout
        for transaction in list(self._open):
            since = transaction.idle_since()
            if since is not None and now - since > timeout:
                transaction.reject(body_stopped(timeout))

    def abort_all(self) -> None:
        """Give up what is left at the end of the shutdown grace."""
        for transaction in list(self._open):
            transaction.abort("the endpoint picker is shutting down")
