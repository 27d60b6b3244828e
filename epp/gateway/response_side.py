"""The response half of a transaction: every message is answered at once, bytes unchanged unless
the model's name is due."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from epp.framework.headers import Headers
from epp.framework.request import TerminationCause
from epp.gateway import messages
from epp.gateway.body_messages import MAX_CHUNK_BYTES, response_body_chunks
from epp.gateway.message_metadata import NO_METADATA, metadata_of
from epp.gateway.overload import Pressure
from epp.request_control.response import ResponsePhase
from epp.request_control.response_rewriting import BodyPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from epp.gateway.context import GatewayContext
    from epp.request_control.active_request import ActiveRequest
    from epp.wire import ext_proc_pb2 as wire


class ResponseSide:
    """Answers response messages in the gateway's body mode."""

    __slots__ = (
        "_context",
        "_held",
        "_phase",
        "_policy",
        "_send",
        "_told",
        "_trailers_seen",
        "ended",
    )

    def __init__(
        self,
        context: GatewayContext,
        policy: BodyPolicy,
        send: Callable[[Iterable[bytes]], None],
        active: ActiveRequest | None,
    ) -> None:
        self._context = context
        self._policy = policy
        self._send = send
        self._phase = ResponsePhase(active, context.response)
        self._held = 0
        self._told = False
        """Whether plugins have told about the response."""
        self._trailers_seen = False
        self.ended = False

    @property
    def body_is_seen(self) -> bool:
        """Whether the end of the response will come by."""
        return self._policy is not BodyPolicy.UNSEEN

    def headers(self, message: wire.ProcessingRequest, headers: Headers) -> None:
        """Take `response_headers`, which have been read."""
        changes = self._phase.begin(
            headers,
            served=messages.served_endpoint(message),
            metadata=metadata_of(message),
            policy=self._policy,
            is_gateways_own=partial(messages.is_gateways_own, message),
        )
        self._send((messages.response_headers_answer(changes),))
        if message.response_headers.end_of_stream or not self.body_is_seen:
            self._end()

    def without_headers(self) -> None:
        """The gateway does not show response headers; begin with none."""
        self._phase.begin(Headers(), served=None, metadata=NO_METADATA, policy=self._policy)

    def unread_headers(self) -> None:
        """They are too long to be read, and go through as they are (decision 1)."""
        self._context.metrics.response_phase_error()
        self.without_headers()
        self._send((messages.EMPTY_RESPONSE_HEADERS,))
        if not self.body_is_seen:
            self._end()

    def body(self, data: bytes, end: bool) -> None:
        """Take a piece of the response's body."""
        if self._policy is not BodyPolicy.HOLD:
            self._one_answer(data, end=end)
        elif self.ended:
            self._context.metrics.message_ignored("response-body")
        elif end or self._phase.rewrites:
            self._full_duplex(data, end=end)
        else:
            self._send(response_body_chunks(data, end=False))
            self._phase.observe(data)

    def _full_duplex(self, data: bytes, *, end: bool) -> None:
        phase = self._phase
        if not phase.rewrites:
            self._send_chunks(data, data, end=end)
        else:
            rewritten = phase.rewrite(data, end=end or self._must_let_go())
            self._count_held(phase.held_bytes)
            if rewritten or end:
                self._send_chunks(rewritten, data, end=end)
        self.ended = end
        phase.observe(data, end)

    def _send_chunks(self, body: bytes, received: bytes, *, end: bool) -> None:
        chunks = response_body_chunks(body, end=end)
        if end and self._phase.tells_metadata:
            *others, last = chunks
            chunks = (*others, self._telling(last, received))
        self._send(chunks)

    def _telling(self, answer: bytes, received: bytes) -> bytes:
        """`answer` with what plugins tell about the response, which `received` completes."""
        self._told = True
        try:
            return messages.with_metadata(answer, self._phase.metadata(received))
        except (TypeError, ValueError, AttributeError):
            self._context.metrics.response_phase_error()
            self._context.said.warn(
                "metadata of a plugin can't be sent: it is no JSON data", self._phase.request_id
            )
            return answer

    def _must_let_go(self) -> bool:
        """Under pressure a document is renamed as far as it has come, rather than held; what an
        event stream holds is not worth it."""
        if self._held <= MAX_CHUNK_BYTES:
            return False
        return self._context.guard.buffer_pressure()[0] is not Pressure.NONE

    def _count_held(self, size: int) -> None:
        self._context.guard.hold(size - self._held)
        self._held = size

    def _one_answer(self, data: bytes, *, end: bool) -> None:
        phase = self._phase
        whole = self._policy is BodyPolicy.WHOLE
        answer = messages.CONTINUE_RESPONSE_BODY
        if not self.ended and phase.rewrites:
            rewritten = phase.rewrite(data, end=end or whole)
            if rewritten != data:
                answer = messages.response_body_replaced(rewritten, content_length=whole)
        if (end or whole) and not self._told and not self.ended and phase.tells_metadata:
            answer = self._telling(answer, data)
        self._send((answer,))
        if not self.ended:
            self.ended = end
            phase.observe(data, end)

    def trailers(self) -> None:
        """Take `response_trailers`: what is still held goes out first (protocol §2.2, 6b)."""
        if self._trailers_seen:
            self._context.metrics.message_ignored("response-trailers")
            return
        self._trailers_seen = True
        answers = [messages.RESPONSE_TRAILERS]
        if not self.ended and self._policy is BodyPolicy.HOLD and self._phase.rewrites:
            rest = self._phase.rewrite(b"", end=True)
            if rest:
                answers = [*response_body_chunks(rest, end=False), *answers]
        if not self.ended and not self._told and self._phase.tells_metadata:
            # On the last piece of the body, if one is still to be answered (D19).
            place = max(len(answers) - 2, 0)
            answers[place] = self._telling(answers[place], b"")
        self._send(answers)
        self._end()

    def _end(self) -> None:
        self._count_held(0)
        if not self.ended:
            self.ended = True
            self._phase.end(TerminationCause.NATURAL)

    def abort(self, cause: TerminationCause) -> None:
        """The transaction is over before the response was."""
        self._count_held(0)
        self.ended = True
        self._phase.end(cause)
