"""A request from its first message to its answer: what is known of it, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from epp.framework.headers import Headers
from epp.gateway import messages
from epp.gateway.replies import immediate_response
from epp.request_control.incoming import REQUEST_ID_HEADER, IncomingRequest

if TYPE_CHECKING:
    from epp.framework.errors import Rejection
    from epp.gateway.context import GatewayContext
    from epp.request_control.tracing import RequestTrace
    from epp.wire import ext_proc_pb2 as wire


class PendingRequest:
    """Its headers and metadata, and whoever is to be told of its end."""

    __slots__ = ("_context", "_incoming", "_subset", "_trace", "headers", "received_at")

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._incoming: IncomingRequest | None = None
        self._subset: object = None
        self._trace: RequestTrace | None = None
        self.headers = Headers()
        self.received_at = context.now()

    def take_headers(self, message: wire.ProcessingRequest) -> None:
        """Take `request_headers`."""
        self.headers = messages.read_headers(message.request_headers.headers)
        tracer = self._context.tracer
        if tracer is not None:
            self._trace = tracer.begin(self.headers, self.received_at)
        self.take_metadata(message)

    def take_metadata(self, message: wire.ProcessingRequest) -> None:
        """Take what a message tells beside its part."""
        if message.HasField("metadata_context"):
            named, subset = messages.subset_hint(message.metadata_context)
            if named:
                self._subset = subset

    def log_values(self) -> Mapping[str, str]:
        """The id of the request, once it is known."""
        request_id = self.headers.get(REQUEST_ID_HEADER)
        return {"request_id": request_id} if request_id else {}

    def incoming(
        self, body: bytes | None, *, bodiless: bool, body_may_be_cut: bool, reserve: bool
    ) -> IncomingRequest:
        """The request as it is to be decided."""
        self._incoming = incoming = IncomingRequest(
            headers=self.headers,
            received_at=self.received_at,
            body=body,
            subset=self._subset,
            bodiless=bodiless,
            body_may_be_cut=body_may_be_cut,
            reserve=reserve,
            trace=self._trace,
        )
        return incoming

    def answered(self) -> None:
        """It has an endpoint."""
        self._incoming = self._trace = None

    def rejected(self, rejection: Rejection) -> bytes:
        """It ends with an HTTP answer of ours: this one."""
        context = self._context
        request = self._incoming.request if self._incoming else None
        trace = self._trace
        self.answered()
        context.reporter.rejected(self.headers, request, rejection, self.received_at, trace)
        if context.decisions is not None:
            if request is None:
                context.decisions.turned_away(self.headers, self.received_at, rejection)
            else:
                context.decisions.rejected(request, self.received_at, rejection)
        is_grpc = (self.headers.get("content-type") or "").startswith("application/grpc")
        return immediate_response(
            rejection, is_grpc=is_grpc, error_format=context.settings.error_format
        )

    def overtaken(self) -> None:
        """A response came first."""
        self.left()
        self._context.reporter.overtaken(self.headers, self.received_at)

    def left(self) -> None:
        """Nobody waits for an answer any more."""
        trace = self._trace
        self.answered()
        if trace is not None:
            trace.left()
