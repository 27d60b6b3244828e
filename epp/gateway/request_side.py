"""The request half of a transaction: read it, have it decided, answer in order.

Bodies that come in pieces to be given back, and bodies that the gateway keeps, have a module each:
`duplex_request` and `kept_request`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from epp.framework.errors import Rejection
from epp.framework.request import TerminationCause
from epp.gateway import messages
from epp.gateway.held_body import HeldBody
from epp.gateway.modes import BODIES_LEFT_ALONE, WHOLE_BODIES, BodyMode
from epp.gateway.overload import Pressure
from epp.gateway.overload_relief import relief
from epp.gateway.pending_request import PendingRequest
from epp.gateway.rejections import body_too_large, declares_more
from epp.gateway.request_headers import decision_answer
from epp.gateway.request_state import RequestState
from epp.request_control.incoming import IncomingRequest, has_no_content

if TYPE_CHECKING:
    import asyncio

    from epp.gateway.context import GatewayContext
    from epp.request_control.active_request import ActiveRequest
    from epp.wire import ext_proc_pb2 as wire


class RequestSide(ABC):
    """Takes and answers the messages of a request; the two kinds know how its body travels."""

    __slots__ = (
        "_bodies_owed",
        "_body_complete",
        "_close",
        "_context",
        "_headers_seen",
        "_held",
        "_observing",
        "_on_decided",
        "_on_failed",
        "_on_headers",
        "_send",
        "_task",
        "_trailers_ended",
        "_trailers_owed",
        "active",
        "last_activity",
        "mode",
        "pending",
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
        on_failed: Callable[[str], None],
    ) -> None:
        self._context = context
        self.mode = mode
        self._observing = observing
        self._send = send
        self._close = close
        """Called when nothing more will be answered on this stream."""
        self._on_decided = on_decided
        """Called after a decision that came later than its request."""
        self._on_failed = on_failed
        """Called with a message when a decision that came later can't be told."""
        self._headers_seen = False
        self._on_headers = False
        """Whether the decision is answered on the headers rather than on the body."""
        self._held = HeldBody(context.guard)
        self._body_complete = False
        self._trailers_ended = False
        self._trailers_owed = False
        self._bodies_owed = 0
        self._task: asyncio.Task[None] | None = None
        self.pending = PendingRequest(context)
        self.last_activity = self.pending.received_at
        self.active: ActiveRequest | None = None
        self.state = RequestState.NEW

    def headers(self, message: wire.ProcessingRequest) -> None:
        """Take `request_headers`."""
        self._headers_seen = True
        self.pending.take_headers(message)
        self.state = RequestState.READING
        self._on_headers = self.mode not in WHOLE_BODIES
        bodiless = message.request_headers.end_of_stream
        if bodiless:
            self._on_headers = self._body_complete = True
        if self._relieved() or self._rejected_by_length():
            return
        if bodiless:
            self._decide(None, bodiless=True)
        else:
            self._await_body()

    def body(self, data: bytes, end: bool) -> None:
        """Take a piece of the request's body."""
        if self.state is RequestState.NEW:
            self.state = RequestState.READING
        self.last_activity = self._context.now()
        self._take(data, end)

    def trailers(self, message: wire.ProcessingRequest) -> None:
        """Take `request_trailers`."""
        if self.state is RequestState.NEW:
            self.state = RequestState.READING
        self.pending.take_metadata(message)
        if self._ended_by_trailers():
            self._trailers_owed = True
            self._decide(self._held.join())
        elif self.state is RequestState.DECIDING:
            self._trailers_owed = True
        elif self.state is not RequestState.OVER:
            self._send((messages.REQUEST_TRAILERS,))

    def held_bytes(self) -> int:
        """Bytes of its body that are here; none while it is being decided."""
        return 0 if self.state is RequestState.DECIDING else self._held.counted

    def reject(self, rejection: Rejection) -> None:
        """End the request with an HTTP answer of ours."""
        self._stop()
        self._send((self.pending.rejected(rejection),))
        if not self._observing:
            self._close()

    def overtaken(self) -> None:
        """A response came before the request was answered: a local reply of the gateway, or an
        upstream that did not wait. The request is not answered any more (protocol §2.7)."""
        if self.state in (RequestState.READING, RequestState.DECIDING):
            self._stop()
            self.pending.overtaken()
        elif self.state is RequestState.NEW:
            self.state = RequestState.OVER

    def abort(self) -> None:
        """The stream is gone: stop deciding, let go of the body."""
        self._stop()
        self.pending.left()

    def _stop(self) -> None:
        self.state = RequestState.OVER
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self._held.release()

    def _relieved(self) -> bool:
        pressure, signal = self._context.guard.pressure()
        if pressure is Pressure.NONE:
            return False
        self.relieve(pressure, signal)
        return True

    def relieve(self, pressure: Pressure, signal: str) -> None:
        """Decide what is being read without reading on: the process has more than it may."""
        self._on_headers = True
        try:
            active = relief(self._context, pressure, signal, partial(self._incoming, None))
        except Rejection as rejection:
            self.reject(rejection)
        else:
            self._answer(active)

    def _rejected_by_length(self) -> bool:
        """413 before the first byte is taken, when the client says how many will come."""
        limit = self._context.settings.max_request_body_bytes
        if self.mode in BODIES_LEFT_ALONE or not declares_more(self.pending.headers, limit):
            return False
        self.reject(body_too_large(limit))
        return True

    def _incoming(self, body: bytes | None, *, bodiless: bool = False) -> IncomingRequest:
        return self.pending.incoming(
            body,
            bodiless=bodiless,
            body_may_be_cut=self.mode is BodyMode.BUFFERED_PARTIAL,
            reserve=not self._observing,
        )

    def _decide(self, body: bytes | None, *, bodiless: bool = False) -> None:
        self.state = RequestState.DECIDING
        if body == b"" and has_no_content(self.pending.headers):
            body, bodiless = None, True
        incoming = self._incoming(body, bodiless=bodiless)
        director = self._context.director
        if director.may_wait(incoming):
            self._task = self._context.tasks.spawn(
                self._decide_later(incoming), name="decision", log_values=self.pending.log_values
            )
            return
        try:
            active = director.decide(incoming)
        except Rejection as rejection:
            self.reject(rejection)
        else:
            self._answer(active)

    async def _decide_later(self, incoming: IncomingRequest) -> None:
        try:
            await self._decide_waiting(incoming)
        except Exception:
            self._on_failed("internal error")  # else the gateway would wait (pitfall 6)
            raise

    async def _decide_waiting(self, incoming: IncomingRequest) -> None:
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
            self._send((decision_answer(active, self._context.said, on_headers=True),))
        self._answer_body(active)
        active.body = None
        if not self._context.response.settings.decision_header:
            self._context.reporter.told(active)
        self.pending.answered()
        self._settle()
        self._skip_response(active)

    def _settle(self) -> None:
        """Send what became due while the decision was pending."""
        for _ in range(self._bodies_owed):
            self._send((messages.CONTINUE_REQUEST_BODY,))
        self._bodies_owed = 0
        if self._trailers_owed:
            self._trailers_owed = False
            self._send((messages.REQUEST_TRAILERS,))

    def _skip_response(self, active: ActiveRequest) -> None:
        """Leave the rest of the transaction to the gateway, if that is wanted and loses nothing:
        in full duplex, bytes that are yet to come would be lost (protocol §2.9)."""
        wanted = active.skip_response or self._context.settings.skip_response
        at_risk = self.mode is BodyMode.FULL_DUPLEX and not self._body_complete
        if wanted and not at_risk and not self._observing:
            active.end(TerminationCause.NATURAL)
            self._close()

    @abstractmethod
    def _await_body(self) -> None:
        """The headers have come, and a body is to follow."""

    @abstractmethod
    def _take(self, data: bytes, end: bool) -> None:
        """A piece of the body has come."""

    @abstractmethod
    def _ended_by_trailers(self) -> bool:
        """Trailers have come; whether they end a body that is being read."""

    @abstractmethod
    def _answer_body(self, active: ActiveRequest) -> None:
        """Answer what has come of the body, and let go of it."""
