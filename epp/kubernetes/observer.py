"""What happens between the picker and the API server, for whoever counts it."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class RelistReason(StrEnum):
    """Why everything was asked for anew."""

    FIRST = "first"
    EXPIRED = "expired"
    """The API server no longer knows the version the watch would go on from."""
    REFUSED = "refused"
    """It refused that version for another reason."""
    SILENT = "silent"
    """A long stream told nothing at all, as it does after a version from the future."""
    PERIODIC = "periodic"
    BEHIND = "behind"
    """What was told could not be taken in."""


class WatchErrorKind(StrEnum):
    """What went wrong while a resource was listed or watched."""

    UNREACHABLE = "unreachable"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not-found"
    EXPIRED = "expired"
    THROTTLED = "throttled"
    STATUS = "status"
    DECODE = "decode"
    SHORT_STREAM = "short-stream"


class EventType(StrEnum):
    """The types of events of a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class KubernetesObserver(Protocol):
    """Counts; `resource` is the plural name, like `pods`."""

    def synced(self, resource: str, is_synced: bool) -> None:
        """Whether everything the API server knows has been told at least once."""

    def contacted(self, resource: str) -> None:
        """The API server was heard of."""

    def relisted(self, resource: str, reason: RelistReason) -> None:
        """Everything was asked for and is known now."""

    def watch_failed(self, resource: str, kind: WatchErrorKind) -> None:
        """A list or watch ended in an error, or one object of it could not be read."""

    def event_received(self, resource: str, type_: EventType) -> None:
        """A watch told something."""

    def repaired(self, resource: str, changes: int) -> None:
        """A relist found changes that a watch should have told."""

    def pool_rejected(self) -> None:
        """The InferencePool is not valid; the last good one stays."""
