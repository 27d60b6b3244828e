"""Where a stream belongs: what all streams of a connection share, as far as one of them sees it."""

from __future__ import annotations

from typing import Protocol

from epp.transport.native.budgets import HeldBytes
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.outbox import Outbox, Sender


class StreamOwner(Protocol):
    """Is told when a stream ends, and lends it what it writes with."""

    outbox: Outbox
    held: HeldBytes
    limits: ConnectionLimits
    low_water: int
    """What a receive window may shrink to before it is opened again."""

    def not_wanted(self, stream: Sender) -> None:
        """The stream ended while its peer still sends."""

    def release(self, stream: Sender) -> None:
        """A stream is over."""
