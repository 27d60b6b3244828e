"""What the request path needs to know of a pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from epp.datastore.snapshot import Snapshot


class PoolAccess(Protocol):
    """What is read of the pool: all that a decision needs of a datastore."""

    @property
    def priorities(self) -> Mapping[str, int]:
        """Priorities by the name of the objective a request asks for."""

    def snapshot(self) -> Snapshot:
        """The pool as of now."""

    async def wait_synced(self) -> None:
        """Return once the pool has been seen."""
