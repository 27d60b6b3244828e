"""One HTTP transaction as the gateway tells it: a synchronous state machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from epp.framework.request import TerminationCause
from epp.gateway import messages
from epp.gateway.body_messages import (
    REQUEST_BODY,
    RESPONSE_BODY,
    RESPONSE_HEADERS,
    bytes_besides,
    read_piece,
)
from epp.gateway.duplex_request import DuplexRequest
from epp.gateway.kept_request import KeptRequest
from epp.gateway.modes import BodyMode, StreamModes, stream_modes
from epp.gateway.rejections import told_too_much
from epp.gateway.request_state import RequestState
from epp.gateway.response_side import ResponseSide
from epp.gateway.text_mending import read_request
from epp.request_control.response_headers import is_interim
from epp.request_control.response_rewriting import BodyPolicy
from epp.transport.streams import Outlet, StatusCode
from epp.wire import ext_proc_pb2 as wire

if TYPE_CHECKING:
    from epp.gateway.context import GatewayContext
    from epp.gateway.overload import Pressure
    from epp.gateway.request_side import RequestSide


MAX_TOLD_BYTES = 1024 * 1024
"""Of headers or metadata in one message: they become Python objects in one turn of the loop."""
_UNCOUNTED_BYTES = 64 * 1024
"""Of the same; what is longer counts as buffered until the stream ends."""
_UNKNOWN_MODES = StreamModes(BodyMode.FULL_DUPLEX, BodyPolicy.HOLD)


class Transaction:
    """Handler of one `Process` stream. Knows no transport: it is called, and sends to an outlet."""

    __slots__ = (
        "_closed",
        "_context",
        "_half_closed",
        "_modes",
        "_on_closed",
        "_outlet",
        "_response",
        "_send",
        "_told",
        "request",
    )

    def __init__(
        self, outlet: Outlet, context: GatewayContext, on_closed: Callable[[Transaction], None]
    ) -> None:
        self._outlet = outlet
        self._send: Callable[[Iterable[bytes]], None] = outlet.send
        self._context = context
        self._on_closed = on_closed
        self.request: RequestSide | None = None
        """From the first message to the end."""
        self._response: ResponseSide | None = None
        self._modes = _UNKNOWN_MODES
        self._half_closed = False
        self._closed = False
        self._told = 0
        """Counted bytes of headers and metadata."""

    def on_message(self, message: bytes) -> None:
        """Take one `ProcessingRequest`."""
        if self._closed:
            return
        first = message[:1]
        if first == RESPONSE_BODY:
            response = self._response
            if response is not None and (piece := read_piece(message)) is not None:
                response.body(*piece)
                return
        elif first == REQUEST_BODY:
            request = self.request
            if request is not None and (piece := read_piece(message)) is not None:
                request.body(*piece)
                return
        self._on_parsed(message)

    def _on_parsed(self, message: bytes) -> None:
        """Take what is not just a piece of a body."""
        if len(message) > _UNCOUNTED_BYTES and not self._count_told(message):
            return
        try:
            parsed = read_request(message)
        except DecodeError:
            self._violation("message is not a ProcessingRequest")
            return
        kind = parsed.WhichOneof("request")
        request = self.request or self._open(parsed)
        if kind == "response_body":
            response = self._response or self._response_side(request)
            response.body(parsed.response_body.body, parsed.response_body.end_of_stream)
        elif kind == "request_body":
            request.pending.take_metadata(parsed)
            request.body(parsed.request_body.body, parsed.request_body.end_of_stream)
        elif kind == "request_headers":
            self._request_headers(request, parsed)
        elif kind == "response_headers":
            self._response_headers(request, parsed)
        elif kind == "request_trailers":
            request.trailers(parsed)
        elif kind == "response_trailers":
            self._response_side(request).trailers()
        else:
            self._violation("message has none of the request and response parts")

    def _count_told(self, message: bytes) -> bool:
        """Count headers and metadata that are long; False if they are too long to be read."""
        size = bytes_besides(message)
        if size > MAX_TOLD_BYTES:
            request = self.request or self._open(wire.ProcessingRequest())
            if message[:1] == RESPONSE_HEADERS and self._response is None:
                self._new_response(request).unread_headers()
            elif request.state in (RequestState.ANSWERED, RequestState.OVER):
                self._violation(f"more than {MAX_TOLD_BYTES} bytes of headers or metadata")
            else:
                request.reject(told_too_much(MAX_TOLD_BYTES))
            return False
        if size > _UNCOUNTED_BYTES:
            self._told += size
            self._context.guard.hold(size)
        return True

    def on_half_close(self) -> None:
        """The gateway sends no more. An answer that is owed still goes out."""
        self._half_closed = True
        request = self.request
        if self._closed or (request is not None and request.state is RequestState.DECIDING):
            return
        if request is not None and request.state is RequestState.READING:
            # So Envoy says that the client has left. OK would send anybody else on without a body.
            self._end(TerminationCause.CLIENT_DISCONNECT)
            self._close(StatusCode.CANCELLED, "half-closed before the request body ended")
            return
        gone = self._response is None or not self._response.ended
        self._end(self._cause_of_half_close() if gone else TerminationCause.NATURAL)
        self._close(StatusCode.OK)

    def on_disconnect(self) -> bool:
        """The stream was cancelled, as Envoy does with every one that it has no more use for."""
        if self._closed:
            return False
        is_over = self._response is not None and self._response.ended
        self._end(TerminationCause.CLIENT_DISCONNECT)
        self._leave()
        return is_over

    def log_values(self) -> Mapping[str, str]:
        """The id of the request, once it is known."""
        return self.request.pending.log_values() if self.request is not None else {}

    def make_room(self, pressure: Pressure, signal: str) -> None:
        """Let go of the body."""
        request = self.request
        if request is not None and request.state is RequestState.READING:
            request.relieve(pressure, signal)
            return
        self._context.guard.cut_short(signal, "rejected")
        self._end(TerminationCause.ERROR)
        self._leave()
        self._outlet.fail(StatusCode.UNAVAILABLE, f"the endpoint picker is overloaded ({signal})")

    def abort(self, message: str) -> None:
        """Give the stream up: an error status, so that a truncated body is seen as one."""
        if not self._closed:
            self._end(TerminationCause.ERROR)
            self._close(StatusCode.UNAVAILABLE, message)

    def _open(self, first: wire.ProcessingRequest) -> RequestSide:
        self._modes = modes = stream_modes(first)
        if modes.observing:
            self._send = _unsent
        kind = DuplexRequest if modes.request is BodyMode.FULL_DUPLEX else KeptRequest
        self.request = kind(
            self._context,
            modes.request,
            observing=modes.observing,
            send=self._send,
            close=self._close_ok,
            on_decided=self._finish_if_half_closed,
            on_failed=self.abort,
        )
        return self.request

    def _request_headers(self, request: RequestSide, message: wire.ProcessingRequest) -> None:
        if request.state is not RequestState.NEW or self._response is not None:
            self._violation("a second request_headers message on one stream")
        else:
            request.headers(message)

    def _response_headers(self, request: RequestSide, message: wire.ProcessingRequest) -> None:
        if self._response is not None:
            self._context.metrics.message_ignored("response-headers")
            return
        headers = messages.read_headers(message.response_headers.headers)
        if is_interim(headers):
            self._send((messages.EMPTY_RESPONSE_HEADERS,))
        else:
            self._new_response(request).headers(message, headers)

    def _response_side(self, request: RequestSide) -> ResponseSide:
        if self._response is None:
            self._new_response(request).without_headers()
        assert self._response is not None
        return self._response

    def _new_response(self, request: RequestSide) -> ResponseSide:
        request.overtaken()
        policy = self._modes.response
        self._response = ResponseSide(self._context, policy, self._send, request.active)
        return self._response

    def _violation(self, message: str) -> None:
        request_id = self.log_values().get("request_id")
        self._context.said.warn(f"the gateway broke the protocol: {message}", request_id)
        self._end(TerminationCause.ERROR)
        self._close(StatusCode.INVALID_ARGUMENT, message)

    def _finish_if_half_closed(self) -> None:
        if self._half_closed and not self._closed:
            self._end(self._cause_of_half_close())
            self._close(StatusCode.OK)

    def _cause_of_half_close(self) -> TerminationCause:
        if self._response is None and self._modes.may_leave_after_pick:
            return TerminationCause.NATURAL
        return TerminationCause.CLIENT_DISCONNECT

    def _end(self, cause: TerminationCause) -> None:
        request, response = self.request, self._response
        if response is not None:
            response.abort(cause)
        if request is not None:
            request.abort()
            if request.active is not None:
                request.active.end(cause)

    def _close_ok(self) -> None:
        self._close(StatusCode.OK)

    def _close(self, code: StatusCode, message: str = "") -> None:
        if not self._closed:
            self._outlet.close(code, message)
            self._leave()

    def _leave(self) -> None:
        self._closed = True
        # Both call back. Without the cycle a stream's memory is free at once: left to the
        # collector, which looks rarely, it came to tens of megabytes.
        self.request = self._response = None
        self._context.guard.give_back(self._told)
        self._on_closed(self)


def _unsent(messages: Iterable[bytes]) -> None:
    """The gateway that only observes takes no answers."""
