"""Which requests are traced, decided before anything is made for one, and how one is told."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from epp.request_control.tracing import TRACEPARENT_HEADER
from epp.tracing.request_spans import (
    add_orchestration,
    end_attributes,
    error_at_end,
    rejection_attributes,
)
from epp.tracing.span import Span, SpanList
from epp.tracing.trace_context import parent_in, traceparent

if TYPE_CHECKING:
    from epp.framework.errors import Rejection
    from epp.framework.headers import Headers
    from epp.framework.request import InferenceRequest, TerminationCause
    from epp.request_control.tracing import AnsweredRequest
    from epp.tracing.span import Attributes, SpanSink

_LOW_64_BITS = (1 << 64) - 1


class Tracer:
    """Follows the callers' choice; of requests without a caller's trace, a share of `ratio`.

    The choice is a matter of the trace's id, so that whoever has the same ratio agrees.
    """

    def __init__(
        self,
        sink: SpanSink,
        ratio: float,
        *,
        rng: random.Random | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._bound = round(ratio * (1 << 64))
        # Not the seed of the process: replicas must not give the same ids.
        self._bits = (rng or random.Random()).getrandbits
        self._now = now

    def begin(self, headers: Headers, received_at: float) -> Trace | None:
        """Trace a request, or not; `headers` get the trace that the model server is to join.

        A caller that is not sampled is left as it is: its header says so already.
        """
        parent = parent_in(headers)
        if parent is not None:
            if not parent.sampled:
                return None
            trace_id, parent_id = parent.trace_id, parent.span_id
        else:
            trace_id, parent_id = self._new_trace_id(), None
            if trace_id & _LOW_64_BITS >= self._bound:
                # Said, or the model server would choose for itself, without us above it.
                header = traceparent(trace_id, self._new_span_id(), sampled=False)
                headers.set(TRACEPARENT_HEADER, header)
                return None
        span_id = self._new_span_id()
        headers.set(TRACEPARENT_HEADER, traceparent(trace_id, span_id, sampled=True))
        return Trace(
            trace_id, span_id, parent_id, received_at, self._sink, self._new_span_id, self._now
        )

    def _new_trace_id(self) -> int:
        return self._bits(128) or 1

    def _new_span_id(self) -> int:
        return self._bits(64) or 1


class Trace:
    """One request that is traced. What is known of it is written when it ends."""

    __slots__ = (
        "_decided",
        "_id",
        "_new_span_id",
        "_now",
        "_parent_id",
        "_received_at",
        "_sink",
        "_span_id",
    )

    def __init__(
        self,
        trace_id: int,
        span_id: int,
        parent_id: int | None,
        received_at: float,
        sink: SpanSink,
        new_span_id: Callable[[], int],
        now: Callable[[], float],
    ) -> None:
        self._id = trace_id
        self._span_id = span_id
        self._parent_id = parent_id
        self._received_at = received_at
        self._sink = sink
        self._new_span_id = new_span_id
        self._now = now
        self._decided: SpanList | None = None
        """Spans of the decision, which have no more than the best candidates in them."""

    @property
    def trace_id(self) -> str:
        """As logs and collectors write it."""
        return f"{self._id:032x}"

    def decided(self, answered: AnsweredRequest) -> None:
        """It has been answered. How that came about may be forgotten from now on."""
        self._decided = self._decision(answered)

    def ended(self, answered: AnsweredRequest, cause: TerminationCause) -> None:
        """A request that had been answered is over."""
        spans = self._decided or self._decision(answered)
        self._write(
            spans, self._now(), end_attributes(answered, cause), error_at_end(answered, cause)
        )

    def rejected(self, request: InferenceRequest | None, rejection: Rejection) -> None:
        """The client gets an error from us; `request` is None before anything was read of it."""
        spans, now = SpanList(self._new_span_id), self._now()
        error = rejection.log_message
        if request is not None:
            add_orchestration(spans, self._span_id, request, now, error)
        self._write(spans, now, rejection_attributes(request, rejection), error)

    def left(self) -> None:
        """Nobody waits for an answer any more."""
        spans, now = SpanList(self._new_span_id), self._now()
        self._write(spans, now, {"epp.note": "over before it was answered"}, None)

    def _decision(self, answered: AnsweredRequest) -> SpanList:
        spans = SpanList(self._new_span_id)
        ended_at = answered.answered_at or self._now()
        add_orchestration(spans, self._span_id, answered.request, ended_at)
        return spans

    def _write(
        self, spans: SpanList, now: float, attributes: Attributes, error: str | None
    ) -> None:
        root = Span(
            "gateway.request",
            self._span_id,
            self._parent_id,
            self._received_at,
            now,
            attributes,
            True,
            error,
        )
        self._sink.write(self._id, self._parent_id, (root, *spans.spans))
