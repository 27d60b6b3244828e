"""What the request path knows of tracing: some requests are traced, most are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.errors import Rejection
    from epp.framework.headers import Headers
    from epp.framework.request import InferenceRequest, InferenceResponse, TerminationCause

TRACEPARENT_HEADER = "traceparent"


class AnsweredRequest(Protocol):
    """What a trace tells of a request that has its answer."""

    request: InferenceRequest
    note: str
    answered_at: float | None
    serving: Endpoint | None
    response: InferenceResponse | None


class RequestTrace(Protocol):
    """A request that was chosen to be traced. Is told exactly one end, and the decision before."""

    @property
    def trace_id(self) -> str:
        """As logs and collectors write it."""

    def decided(self, answered: AnsweredRequest) -> None:
        """It has been answered. How that came about may be forgotten from now on."""

    def ended(self, answered: AnsweredRequest, cause: TerminationCause) -> None:
        """A request that had been answered is over."""

    def rejected(self, request: InferenceRequest | None, rejection: Rejection) -> None:
        """The client gets an error from us; `request` is None before anything was read of it."""

    def left(self) -> None:
        """Nobody waits for an answer any more."""


class RequestTracer(Protocol):
    """Chooses the requests that are traced."""

    def begin(self, headers: Headers, received_at: float) -> RequestTrace | None:
        """Trace a request, or not; `headers` get what the model server is to be told of it."""
