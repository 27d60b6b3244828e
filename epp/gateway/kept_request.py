"""Requests whose body the gateway keeps: every message gets one answer, which may replace it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.gateway import messages
from epp.gateway.modes import BODIES_LEFT_ALONE, WHOLE_BODIES, BodyMode
from epp.gateway.rejections import body_too_large, tunnel_without_end
from epp.gateway.request_headers import (
    answer_before_body,
    decision_answer,
    trailers_decision_answer,
)
from epp.gateway.request_side import RequestSide
from epp.gateway.request_state import RequestState
from epp.request_control.incoming import (
    REQUEST_ID_HEADER,
    REWRITE_HEADERS,
    first_header,
    opens_tunnel,
)

if TYPE_CHECKING:
    from epp.request_control.active_request import ActiveRequest


class KeptRequest(RequestSide):
    """Decides by the whole body where the mode brings it in one message, else by the headers."""

    __slots__ = ()

    def _await_body(self) -> None:
        if self.mode not in BODIES_LEFT_ALONE:
            if opens_tunnel(self.pending.headers):
                self.reject(tunnel_without_end())
            else:
                self._send((answer_before_body(self.pending.headers),))
            return
        if first_header(self.pending.headers, REWRITE_HEADERS) is not None:
            self._context.said.warn(
                "a model rewrite was asked for in a body mode that does not allow it",
                self.pending.headers.get(REQUEST_ID_HEADER),
            )
        self._decide(None)

    def _take(self, data: bytes, end: bool) -> None:
        if self.state is RequestState.READING and self.mode is not BodyMode.NONE:
            self._whole(data)
        else:
            self._owed(end)

    def _whole(self, data: bytes) -> None:
        limit = self._context.settings.max_request_body_bytes
        self._body_complete = True
        if len(data) > limit:
            self.reject(body_too_large(limit))
            return
        self._held.add(data)
        self._decide(self._held.join())

    def _owed(self, end: bool) -> None:
        if self.mode is BodyMode.NONE:
            self._context.metrics.message_ignored("request-body")
        elif self.state is RequestState.DECIDING:
            self._bodies_owed += 1
        elif self.state is not RequestState.OVER:
            self._send((messages.CONTINUE_REQUEST_BODY,))
        self._body_complete = self._body_complete or end

    def _ended_by_trailers(self) -> bool:
        """Trailers are the end of a body that had nothing in it, which no message told."""
        waits_for_body = self._headers_seen and self.state is RequestState.READING
        return waits_for_body and self.mode in WHOLE_BODIES

    def _answer_body(self, active: ActiveRequest) -> None:
        if not self._on_headers:
            self._tell_decision(active)
        self._held.release()

    def _tell_decision(self, active: ActiveRequest) -> None:
        if self._held.seen:
            self._send((decision_answer(active, self._context.said, on_headers=False),))
        else:
            self._trailers_owed = False
            self._send((trailers_decision_answer(active),))
