"""Requests in full duplex: pieces of a body are taken, and given back when and how we like.

The gateway keeps no copy of what it hands out, so every byte taken is given back or the request is
answered by us (protocol §2.1, pitfall 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.gateway.body_messages import MAX_CHUNK_BYTES, request_body_chunks
from epp.gateway.overload import Pressure
from epp.gateway.rejections import body_too_large
from epp.gateway.request_side import RequestSide
from epp.gateway.request_state import RequestState
from epp.request_control.incoming import opens_tunnel

if TYPE_CHECKING:
    from epp.request_control.active_request import ActiveRequest


class DuplexRequest(RequestSide):
    """Holds the body back until the decision, lets the rest of it pass."""

    __slots__ = ()

    def _await_body(self) -> None:
        """The answer to the headers is the decision; of a tunnel nothing comes before it."""
        if opens_tunnel(self.pending.headers):
            self._decide(None, bodiless=True)

    def _take(self, data: bytes, end: bool) -> None:
        if self._body_complete:
            # Envoy 1.35 to 1.37 can deliver the last piece twice (D4).
            self._context.metrics.message_ignored("request-body")
            return
        self._body_complete = end
        if self.state is RequestState.ANSWERED:
            self._send(request_body_chunks(data, end=end))
            if end and self.active is not None:
                self._skip_response(self.active)
        elif self.state is not RequestState.OVER:
            self._collect(data, end=end)

    def _collect(self, data: bytes, *, end: bool) -> None:
        context = self._context
        if self._held.size + len(data) > context.settings.max_request_body_bytes:
            self.reject(body_too_large(context.settings.max_request_body_bytes))
            return
        self._held.add(data)
        if self.state is RequestState.DECIDING:
            return  # in a tunnel that is not open yet
        pressure, signal = context.guard.pressure_left()
        if self.state is not RequestState.READING:
            return  # it held most itself
        if pressure is not Pressure.NONE:
            self.relieve(pressure, signal)
        elif end:
            self._decide(self._held.join())

    def _ended_by_trailers(self) -> bool:
        """Trailers are the end of a body that had none (D2)."""
        if self._body_complete:
            return False
        self._body_complete = self._trailers_ended = True
        return self.state is RequestState.READING

    def _answer_body(self, active: ActiveRequest) -> None:
        """As far as one came; a body answer without a body message is spurious."""
        if not self._held.seen:
            return
        end = self._body_complete and not self._trailers_ended
        body = self._held.join() if active.body is None else active.body
        chunks = request_body_chunks(body, end=end)
        if len(body) > MAX_CHUNK_BYTES:
            self._send(self._held.released_after(chunks))
        else:
            self._send(chunks)
            self._held.release()
