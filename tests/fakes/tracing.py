"""Spans as a test reads them, from wherever they went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from epp.tracing.span import Attributes, Span


class Told:
    """The spans of one request."""

    def __init__(self, trace_id: int, remote_parent: int | None, spans: Sequence[Span]) -> None:
        self.trace_id = trace_id
        self.remote_parent = remote_parent
        self.spans = spans

    @property
    def root(self) -> Span:
        """`gateway.request`."""
        [root] = [span for span in self.spans if span.parent_id == self.remote_parent]
        return root

    def named(self, name: str) -> Span:
        """The only span of a name."""
        [span] = [span for span in self.spans if span.name == name]
        return span

    def attributes(self, name: str) -> Attributes:
        """What the only span of a name says."""
        return self.named(name).attributes

    @property
    def tree(self) -> list[str]:
        """Names in the order of time, with a dot before each for every span above."""
        return list(self._below(self.root, ""))

    def _below(self, span: Span, indent: str) -> Iterator[str]:
        yield indent + span.name
        children = [each for each in self.spans if each.parent_id == span.span_id]
        for child in sorted(children, key=lambda each: (each.started_at, each.ended_at)):
            yield from self._below(child, indent + ".")


class SpanRecords:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.all: list[Told] = []

    def write(self, trace_id: int, remote_parent: int | None, spans: Sequence[Span]) -> None:
        self.all.append(Told(trace_id, remote_parent, spans))

    @property
    def only(self) -> Told:
        """The one request that was told of."""
        [told] = self.all
        return told
