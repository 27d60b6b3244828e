"""The request half of a transaction: collect the body, have it decided, answer in order.

In full duplex the gateway keeps no copy of what it hands out, so every byte taken is given back
or the request is answered by us (protocol §2.1, pitfall 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from epp.datastore.inference_pool import FailureMode
from epp.framework.errors import Rejection
from epp.framework.headers import Headers
from epp.framework.request import TerminationCause
from epp.gateway import messages
from epp.gateway.body_messages import MAX_CHUNK_BYTES, request_body_chunks
from epp.gateway.held_body import HeldBody
from epp.gateway.modes import BodyMode
from epp.gateway.overload import Pressure
from epp.gateway.rejections import body_too_large, overloaded
from epp.gateway.replies import immediate_response
from epp.gateway.request_headers import request_changes
from epp.request_control.incoming import REWRITE_HEADERS, IncomingRequest, first_header

if TYPE_CHECKING:
    import asyncio

    from epp.gateway.context import GatewayContext
    from epp.request_control.active_request import ActiveRequest
    from epp.wire import ext_proc_pb2 as wire


class RequestState(Enum):
    """How far the request half has come."""

    NEW = auto()
    READING = auto()
    DECIDING = auto()
    ANSWERED = auto()
    OVER = auto()
    """Rejected, or overtaken by a response that did not wait for it."""


class RequestSide:
    """Collects and answers request messages in the gateway's body mode."""

    __slots__ = (
        "_bodies_owed",
        "_body_complete",
        "_close",
        "_context",
        "_headers",
        "_headers_seen",
        "_held",
        "_incoming_request",
        "_mode",
        "_observing",
        "_on_decided",
        "_on_headers",
        "_received_at",
        "_send",
        "_subset",
        "_task",
        "_trailers_ended",
        "_trailers_owed",
        "active",
        "last_activity",
        "state",
    )

    def __init__(
        self,
        context: GatewayContext,
        mode: BodyMode,
        *,
        observing: bool,
        send: Callable[[Iterable[bytes]], None],
        close: Callable[[], None],
        on_decided: Callable[[], None],
    ) -> None:
        self._context = context
        self._mode = mode
        self._observing = observing
        self._send = send
        self._close = close
        """Called when nothing more will be answered on this stream."""
        self._on_decided = on_decided
        """Called after a decision that came later than its request."""
        self._headers = Headers()
        self._headers_seen = False
        self._on_headers = False
        """Whether the decision is answered on the headers rather than on the body."""
        self._subset: object = None
        self._held = HeldBody(context.guard)
        self._body_complete = False
        self._trailers_ended = False
        self._trailers_owed = False
        self._bodies_owed = 0
        self._incoming_request: IncomingRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._received_at = self.last_activity = context.now()
        self.active: ActiveRequest | None = None
        self.state = RequestState.NEW

    def headers(self, message: wire.ProcessingRequest) -> None:
        """Take `request_headers`."""
        self._headers_seen = True
        self._headers = messages.read_headers(message.request_headers.headers)
        self.take_metadata(message)
        self.state = RequestState.READING
        self._on_headers = self._mode not in (BodyMode.BUFFERED, BodyMode.BUFFERED_PARTIAL)
        bodiless = message.request_headers.end_of_stream
        if bodiless:
            self._on_headers = self._body_complete = True
        if self._rejected_by_overload() or self._rejected_by_length():
            return
        if bodiless:
            self._decide(None, bodiless=True)
        elif self._mode in (BodyMode.STREAMED, BodyMode.NONE):
            if first_header(self._headers, REWRITE_HEADERS) is not None:
                self._context.said.warn(
                    "a model rewrite was asked for in a body mode that does not allow it"
                )
            self._decide(None)
        elif not self._on_headers:
            self._send((messages.EMPTY_REQUEST_HEADERS,))

    def body(self, data: bytes, end: bool) -> None:
        """Take a piece of the request's body."""
        if self.state is RequestState.NEW:
            self.state = RequestState.READING
        self.last_activity = self._context.now()
        if self._mode is BodyMode.FULL_DUPLEX:
            self._full_duplex(data, end=end)
        elif self.state is RequestState.READING and self._mode is not BodyMode.NONE:
            self._whole(data)
        else:
            self._owed_body(end)

    def trailers(self, message: wire.ProcessingRequest) -> None:
        """Take `request_trailers`: the end of a full-duplex body that had none (D2)."""
        if self.state is RequestState.NEW:
            self.state = RequestState.READING
        self.take_metadata(message)
        if self._mode is BodyMode.FULL_DUPLEX and not self._body_complete:
            self._body_complete = self._trailers_ended = True
            if self.state is RequestState.READING:
                self._trailers_owed = True
                self._decide(self._held.join())
                return
        if self.state is RequestState.DECIDING:
            self._trailers_owed = True
        elif self.state is not RequestState.OVER:
            self._send((messages.REQUEST_TRAILERS,))

    def reject(self, rejection: Rejection) -> None:
        """End the request with an HTTP answer of ours."""
        self._leave(RequestState.OVER)
        request = self._incoming_request.request if self._incoming_request else None
        self._context.reporter.rejected(self._headers, request, rejection, self._received_at)
        if request is not None and self._context.decisions is not None:
            self._context.decisions.rejected(request, self._received_at, rejection)
        self._incoming_request = None
        is_grpc = (self._headers.get("content-type") or "").startswith("application/grpc")
        self._send(
            (
                immediate_response(
                    rejection, is_grpc=is_grpc, error_format=self._context.settings.error_format
                ),
            )
        )
        if not self._observing:
            self._close()

    def overtaken(self) -> None:
        """A response came before the request was answered: a local reply of the gateway, or an
        upstream that did not wait. The request is not answered any more (protocol §2.7)."""
        if self.state in (RequestState.READING, RequestState.DECIDING):
            self._leave(RequestState.OVER)
            self._incoming_request = None
            self._context.reporter.overtaken(self._headers, self._received_at)
        elif self.state is RequestState.NEW:
            self.state = RequestState.OVER

    def abort(self) -> None:
        """The stream is gone: stop deciding, let go of the body."""
        self._leave(RequestState.OVER)

    def _leave(self, state: RequestState) -> None:
        self.state = state
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self._held.release()

    def take_metadata(self, message: wire.ProcessingRequest) -> None:
        """Take what a message tells beside its part."""
        if message.HasField("metadata_context"):
            named, subset = messages.subset_hint(message.metadata_context)
            if named:
                self._subset = subset

    def _rejected_by_overload(self) -> bool:
        pressure, signal = self._context.guard.pressure()
        return pressure is not Pressure.NONE and self._relieve(pressure, signal)

    def _relieve(self, pressure: Pressure, signal: str) -> bool:
        """Decision 1's overload row: reject early, or pick without reading on."""
        context = self._context
        fail_open = context.director.failure_mode is FailureMode.FAIL_OPEN
        if pressure is Pressure.EXTREME or not fail_open:
            context.metrics.overloaded(signal, "rejected")
            self.reject(overloaded(signal))
            return True
        context.metrics.overloaded(signal, "picked")
        self._on_headers = True
        try:
            active = context.director.best_effort(self._incoming(None), "overload")
        except Rejection as rejection:
            self.reject(rejection)
        else:
            self._answer(active)
        return True

    def _rejected_by_length(self) -> bool:
        """413 before the first byte is taken, when the client says how many will come."""
        declared = self._headers.get("content-length") or ""
        if self._mode in (BodyMode.STREAMED, BodyMode.NONE) or not declared.isascii():
            return False
        limit = self._context.settings.max_request_body_bytes
        if not declared.isdigit() or len(declared) > 18 or int(declared) <= limit:
            return False
        self.reject(body_too_large(limit))
        return True

    def _full_duplex(self, data: bytes, *, end: bool) -> None:
        if self._body_complete:
            # Envoy 1.35 to 1.37 can deliver the last piece twice (D4).
            self._context.metrics.message_ignored("request-body")
            return
        self._body_complete = end
        if self.state is RequestState.ANSWERED:
            self._send(request_body_chunks(data, end=end))
            if end and self.active is not None:
                self._skip_response(self.active)
        elif self.state is RequestState.READING:
            self._collect(data, end=end)

    def _collect(self, data: bytes, *, end: bool) -> None:
        context = self._context
        if self._held.size + len(data) > context.settings.max_request_body_bytes:
            self.reject(body_too_large(context.settings.max_request_body_bytes))
            return
        self._held.add(data)
        pressure, signal = context.guard.buffer_pressure()
        if pressure is not Pressure.NONE:
            self._relieve(pressure, signal)
        elif end:
            self._decide(self._held.join())

    def _whole(self, data: bytes) -> None:
        limit = self._context.settings.max_request_body_bytes
        self._body_complete = True
        if len(data) > limit:
            self.reject(body_too_large(limit))
            return
        self._held.add(data)
        self._decide(self._held.join())

    def _owed_body(self, end: bool) -> None:
        if self._mode is BodyMode.NONE:
            self._context.metrics.message_ignored("request-body")
        elif self.state is RequestState.DECIDING:
            self._bodies_owed += 1
        elif self.state is not RequestState.OVER:
            self._send((messages.CONTINUE_REQUEST_BODY,))
        self._body_complete = self._body_complete or end

    def _incoming(self, body: bytes | None, *, bodiless: bool = False) -> IncomingRequest:
        self._incoming_request = incoming = IncomingRequest(
            headers=self._headers,
            received_at=self._received_at,
            body=body,
            subset=self._subset,
            bodiless=bodiless,
            body_may_be_cut=self._mode is BodyMode.BUFFERED_PARTIAL,
            reserve=not self._observing,
        )
        return incoming

    def _decide(self, body: bytes | None, *, bodiless: bool = False) -> None:
        self.state = RequestState.DECIDING
        incoming = self._incoming(body, bodiless=bodiless)
        director = self._context.director
        if director.may_wait(incoming):
            self._task = self._context.tasks.spawn(self._decide_later(incoming), name="decision")
            return
        try:
            active = director.decide(incoming)
        except Rejection as rejection:
            self.reject(rejection)
        else:
            self._answer(active)

    async def _decide_later(self, incoming: IncomingRequest) -> None:
        try:
            active = await self._context.director.decide_waiting(incoming)
        except Rejection as rejection:
            self._task = None
            self.reject(rejection)
        else:
            self._task = None
            self._answer(active)
            self._on_decided()

    def _answer(self, active: ActiveRequest) -> None:
        self.state = RequestState.ANSWERED
        self.active = active
        self._context.reporter.answered(active)
        if self._on_headers and self._headers_seen:
            self._send((self._decision(active, on_headers=True),))
        if self._mode is BodyMode.FULL_DUPLEX:
            self._give_back(active)
        else:
            if not self._on_headers:
                self._send((self._decision(active, on_headers=False),))
            self._held.release()
        active.body = self._incoming_request = None
        self._settle()
        self._skip_response(active)

    def _decision(self, active: ActiveRequest, *, on_headers: bool) -> bytes:
        answer = partial(
            messages.request_answer,
            request_changes(active),
            active.destination,
            on_headers=on_headers,
            body=active.body if active.body_changed and not on_headers else None,
        )
        try:
            return answer(metadata=active.request.dynamic_metadata)
        except (TypeError, ValueError, AttributeError):
            self._context.said.warn("metadata of a plugin can't be sent: it is no JSON data")
            return answer()

    def _skip_response(self, active: ActiveRequest) -> None:
        """Leave the rest of the transaction to the gateway, if that is wanted and loses nothing:
        in full duplex, bytes that are yet to come would be lost (protocol §2.9)."""
        wanted = active.skip_response or self._context.settings.skip_response
        at_risk = self._mode is BodyMode.FULL_DUPLEX and not self._body_complete
        if wanted and not at_risk and not self._observing:
            active.end(TerminationCause.NATURAL)
            self._close()

    def _give_back(self, active: ActiveRequest) -> None:
        """The body, as far as one came; a body answer without a body message is spurious."""
        end = self._body_complete and not self._trailers_ended
        if not self._held.seen:
            return
        body = self._held.join() if active.body is None else active.body
        chunks = request_body_chunks(body, end=end)
        if len(body) > MAX_CHUNK_BYTES:
            self._send(self._held.released_after(chunks))
        else:
            self._send(chunks)
            self._held.release()

    def _settle(self) -> None:
        """Send what became due while the decision was pending."""
        for _ in range(self._bodies_owed):
            self._send((messages.CONTINUE_REQUEST_BODY,))
        self._bodies_owed = 0
        if self._trailers_owed:
            self._trailers_owed = False
            self._send((messages.REQUEST_TRAILERS,))
