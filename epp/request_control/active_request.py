"""A request that has been decided: its endpoints, what is forwarded, and its one end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.request_control.explanation import reason_of

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest, InferenceResponse, TerminationCause
    from epp.framework.request_handling import Parser
    from epp.framework.scheduling_results import SchedulingResult
    from epp.observability.request_metrics import RequestMetrics
    from epp.request_control.incoming import IncomingRequest
    from epp.request_control.response_hooks import ResponseHookRunner
    from epp.request_control.tracing import RequestTrace


class ActiveRequest:
    """What the director decided. Ends exactly once, whatever ends it (pitfall 8).

    While it lives, the endpoint that serves it counts it as in flight.
    """

    __slots__ = (
        "_kept_reason",
        "_on_end",
        "answered_at",
        "bodiless",
        "body",
        "body_changed",
        "destination",
        "ended",
        "endpoints",
        "first_byte_at",
        "hooks",
        "hooks_running",
        "is_answered_by_gateway",
        "metrics",
        "note",
        "parser",
        "processing_seconds",
        "received_at",
        "request",
        "response",
        "response_started_at",
        "result",
        "serving",
        "skip_response",
        "trace",
        "unseen_states",
    )

    def __init__(
        self,
        *,
        incoming: IncomingRequest,
        request: InferenceRequest,
        endpoints: tuple[Endpoint, ...],
        hooks: ResponseHookRunner,
        on_end: Callable[[ActiveRequest, TerminationCause], None],
        result: SchedulingResult | None = None,
        note: str = "",
        parser: Parser | None = None,
        new_body: bytes | None = None,
        skip_response: bool = False,
    ) -> None:
        self.request = request
        self.endpoints = endpoints
        self.destination = ",".join([endpoint.address for endpoint in endpoints]) or None
        """Value of the destination header; None: the gateway goes on without one."""
        self.hooks = hooks
        """Those of the plan that the request met, whatever is configured by now."""
        self.result = result
        self.note = note
        """Why these endpoints, if not for the scheduler's result."""
        self._kept_reason = ""
        self.received_at = incoming.received_at
        self.trace: RequestTrace | None = incoming.trace
        self.parser = parser
        self.body = incoming.body if new_body is None else new_body
        """Bytes to forward; dropped once they have been answered."""
        self.body_changed = new_body is not None
        self.bodiless = incoming.bodiless
        self.skip_response = skip_response
        self.response: InferenceResponse | None = None
        self.unseen_states: deque[InferenceResponse] | None = None
        """Response states the body hooks have yet to see."""
        self.hooks_running = False
        self.is_answered_by_gateway = False
        """Whether the response is an error that the gateway made without an endpoint's doing."""
        self.answered_at: float | None = None
        self.metrics: RequestMetrics | None = None
        self.response_started_at = 0.0
        self.first_byte_at: float | None = None
        self.processing_seconds = 0.0
        """Time spent on handling the response."""
        self.ended = False
        self._on_end = on_end
        self.serving = endpoints[0] if endpoints and incoming.reserve else None
        """The endpoint that counts this request as in flight."""
        if self.serving is not None:
            self.serving.load.acquire()

    @property
    def reason(self) -> str:
        """Why this endpoint, in one line; put together when asked for."""
        if self.result is None:
            return self._kept_reason or self.note
        return reason_of(self.result)

    @property
    def ttft_seconds(self) -> float | None:
        """From the request's headers to the first byte of the response's body, if one came."""
        first = self.first_byte_at
        return None if first is None else first - self.received_at

    def settle(self, *, keeps_reason: bool) -> None:
        """Let go of how it was decided, and of what was known of those that were not picked: of a
        large pool that is most of what an open stream holds."""
        if keeps_reason:
            self._kept_reason = self.reason
        self.result = self.request.trail = None
        values = self.request.candidate_attributes
        for key, of_candidates in values.items():
            if type(of_candidates) is dict:  # others compute them when asked, and may raise
                values[key] = {each: of_candidates.get(each) for each in self.endpoints}

    def served_by(self, endpoint: Endpoint) -> None:
        """Move the count to the endpoint that served after the gateway's retries (pitfall 9)."""
        if self.ended or self.serving is None or endpoint.id == self.serving.id:
            return
        self.serving.load.release()
        endpoint.load.acquire()
        self.serving = endpoint

    def end(self, cause: TerminationCause) -> None:
        """Give back what the request held and tell the listener; later calls do nothing."""
        if self.ended:
            return
        self.ended = True
        self.body = None
        if self.serving is not None:
            self.serving.load.release()
        self._on_end(self, cause)
