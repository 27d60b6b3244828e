"""A Lease, and the place it is kept, as candidates see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class LeaseError(Exception):
    """The lease could not be read or written; nothing is known about who holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """What a Lease says of its holder. Times are kept as they are written."""

    holder: str = ""
    duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    transitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease as it was read."""

    record: LeaseRecord
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """All of it, with its version: a write that replaces it keeps what others put there."""


class LeaseStore(Protocol):
    """Where one Lease is kept."""

    async def read(self) -> Lease | None:
        """The Lease as it is now; None when there is none. Raises `LeaseError`."""

    async def write(self, record: LeaseRecord, *, over: Lease | None) -> None:
        """Replace exactly `over`, or create the Lease. Raises `LeaseError`."""
