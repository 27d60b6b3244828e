"""The ext_proc service: makes a transaction per stream, and knows which are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.gateway.health import EXT_PROC_SERVICE
from epp.gateway.stream import Transaction
from epp.gateway.upkeep import Upkeep

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
        self.upkeep = Upkeep(context, self._open)
        context.guard.make_room = self.upkeep.make_room

    def __call__(self, outlet: Outlet) -> Transaction:
        """The handler of a new stream."""
        transaction = Transaction(outlet, self._context, self._closed)
        self._open.add(transaction)
        self._context.guard.streams += 1
        return transaction

    def _closed(self, transaction: Transaction) -> None:
        self._open.discard(transaction)
        self._context.guard.streams -= 1

    def abort_all(self) -> None:
        """Give up what is left at the end of the shutdown grace."""
        for transaction in list(self._open):
            transaction.abort("the endpoint picker is shutting down")
