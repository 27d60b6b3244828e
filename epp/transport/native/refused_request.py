"""The answer to a request that is HTTP, but not gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.transport.native.methods import StreamMethod
from epp.transport.native.responses import plain_head
from epp.transport.native.stream import Stream, StreamEnd
from epp.transport.streams import Outlet, StatusCode, StreamHandler

if TYPE_CHECKING:
    from epp.transport.native.request_head import RequestHead
    from epp.transport.native.stream_owner import StreamOwner

_TEXTS = {
    405: b"this port speaks gRPC: the method has to be POST\n",
    415: b"this port speaks gRPC: the content-type has to be application/grpc\n",
    431: b"the request's headers are too large\n",
}


class RefusedRequest(Stream):
    """Waits for the end of the request, as HTTP clients expect, and answers with a status."""

    __slots__ = ("_has_body", "_status")

    def __init__(self, stream_id: int, owner: StreamOwner, head: RequestHead) -> None:
        super().__init__(stream_id, owner, head, _NOBODY)
        self._status = head.refusal
        self._has_body = head.has_body

    def start(self) -> None:
        """There is no handler."""

    def receive(self, data: bytes, start: int, end: int) -> None:
        """Nobody reads the body."""
        if self._content_left >= 0:
            self._count_content(end - start)

    def receive_end(self) -> None:
        """Answer."""
        super().receive_end()
        outbox = self._owner.outbox
        is_first = outbox.is_first_block()
        outbox.control(plain_head(self.stream_id, self._status, is_first, not self._has_body))
        self._has_head = True
        self._end = StreamEnd(StatusCode.OK, "")
        if self._has_body:
            self._queue.put_text(_TEXTS[self._status])
            outbox.ready(self)
        else:
            self._over(StatusCode.OK)

    def _send_end(self, end: StreamEnd) -> None:
        if self._has_head:
            self._owner.outbox.data(self, (), 0, end_stream=True)


def _nothing(outlet: Outlet) -> StreamHandler:
    raise NotImplementedError


_NOBODY = StreamMethod("", _nothing)
