"""A span as it is handed over, free of any library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

AttributeValue: TypeAlias = "str | bool | int | float | Sequence[str] | Sequence[float]"
Attributes: TypeAlias = Mapping[str, AttributeValue]


class Span(Struct, frozen=True):
    """One step of a request. Times are monotonic seconds."""

    name: str
    span_id: int
    parent_id: int | None
    started_at: float
    ended_at: float
    attributes: Attributes
    is_server: bool = False
    error: str | None = None
    """What failed; None: nothing did."""


class SpanSink(Protocol):
    """Takes the spans of requests that are over; must not wait."""

    def write(self, trace_id: int, remote_parent: int | None, spans: Sequence[Span]) -> None:
        """Take the spans of one request; `remote_parent` is the parent that is not ours."""


class ClosableSink(SpanSink, Protocol):
    """Takes spans until it is closed."""

    def lost(self) -> Mapping[str, int]:
        """How many were lost since the start, by reason."""

    def close(self) -> None:
        """Send what is left, as far as it is taken soon; waits."""


class SpanList:
    """Collects the spans of one request."""

    __slots__ = ("_new_id", "spans")

    def __init__(self, new_id: Callable[[], int]) -> None:
        self._new_id = new_id
        self.spans: list[Span] = []

    def add(
        self,
        name: str,
        parent_id: int,
        started_at: float,
        ended_at: float,
        attributes: Attributes,
        error: str | None = None,
        *,
        is_server: bool = False,
    ) -> int:
        """Add a span below another; gives its id."""
        span_id = self._new_id()
        self.spans.append(
            Span(name, span_id, parent_id, started_at, ended_at, attributes, is_server, error)
        )
        return span_id
