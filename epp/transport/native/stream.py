"""One gRPC stream: the outlet of its handler, and its side of flow control."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import structlog

from epp.transport.message_generators import close_generator
from epp.transport.native.frames import (
    DEFAULT_FRAME_BYTES,
    LARGEST_WINDOW,
    ErrorCode,
    StreamFault,
    window_update,
)
from epp.transport.native.messages import MessageReader
from epp.transport.native.outbox import Buffer, Timer
from epp.transport.native.responses import response_head, trailers, trailers_only
from epp.transport.native.send_queue import SendQueue
from epp.transport.streams import StatusCode, StreamHandler

if TYPE_CHECKING:
    from epp.transport.native.methods import StreamMethod
    from epp.transport.native.request_head import RequestHead
    from epp.transport.native.stream_owner import StreamOwner

log = structlog.get_logger(__name__)


class StreamEnd(NamedTuple):
    """How a stream ends once all that is queued has gone out."""

    code: StatusCode
    message: str


class Stream:
    """Called by its connection for what arrives, and by its handler for what is to be sent."""

    __slots__ = (
        "__weakref__",
        "_content_left",
        "_end",
        "_handler",
        "_has_head",
        "_largest_at_once",
        "_method",
        "_opened_at",
        "_owner",
        "_queue",
        "_reader",
        "deadline",
        "is_over",
        "peer_is_done",
        "receive_window",
        "send_window",
        "stream_id",
    )

    def __init__(
        self, stream_id: int, owner: StreamOwner, head: RequestHead, method: StreamMethod
    ) -> None:
        self.stream_id = stream_id
        self.send_window = owner.outbox.initial_window
        self.receive_window = owner.limits.receive_window
        self.is_over = False
        self.peer_is_done = False
        self.deadline: Timer | None = None
        self._owner = owner
        self._method = method
        self._content_left = head.content_length
        self._reader = MessageReader(method.limits, owner.held, head.is_identity)
        self._queue = SendQueue(owner.held, method.limits.max_send_bytes)
        limit = method.limits.max_send_bytes
        self._largest_at_once = DEFAULT_FRAME_BYTES if limit is None else limit
        self._has_head = False
        self._end: StreamEnd | None = None
        self._handler: StreamHandler | None = None
        self._opened_at = method.opened()

    def start(self) -> None:
        """Make the handler."""
        try:
            self._handler = self._method.handler_factory(self)
        except Exception as error:  # noqa: BLE001 - a handler's, logged there
            self._handler_failed(error)

    def send(self, messages: Iterable[bytes]) -> None:
        """Queue messages, in order (see `Outlet`)."""
        if self._end is not None:
            close_generator(messages)
            return
        if (
            self._has_head
            and type(messages) is tuple
            and len(messages) == 1
            and not self._queue
            and len(messages[0]) <= self._largest_at_once
            and self._owner.outbox.message(self, messages[0])
        ):
            return
        self._queue.put(messages)
        self._owner.outbox.ready(self)

    def close(self, code: StatusCode = StatusCode.OK, message: str = "") -> None:
        """End the stream once everything queued has gone out."""
        if self._end is None:
            self._end = StreamEnd(code, message)
            if not self._queue:
                self._finish()

    def receive(self, data: bytes, start: int, end: int) -> None:
        """DATA came, without its padding."""
        if self._content_left >= 0:
            self._count_content(end - start)
        if self._end is not None:
            return
        reader = self._reader
        for message in reader.feed(data, start, end):
            handler = self._handler
            if handler is None or self._end is not None:
                return
            try:
                handler.on_message(message)
            except Exception as error:  # noqa: BLE001 - a handler's, logged there
                self._handler_failed(error)
                return
        fault = reader.fault
        if fault is not None and self._end is None:
            if fault.size:
                self._method.refused(fault.size)
            self.fail(fault.code, fault.message)

    def receive_end(self) -> None:
        """The peer will send nothing more."""
        self.peer_is_done = True
        if self._content_left > 0:
            reason = "less DATA than content-length says"
            raise StreamFault(self.stream_id, ErrorCode.PROTOCOL_ERROR, reason)
        if self._end is not None or self._handler is None:
            return
        if self._reader.is_inside:
            self.fail(StatusCode.INTERNAL, "the stream was half-closed inside a message")
            return
        try:
            self._handler.on_half_close()
        except Exception as error:  # noqa: BLE001 - a handler's, logged there
            self._handler_failed(error)

    def widen(self, increment: int) -> None:
        """The peer takes more, or less where it changed its mind (RFC 9113 §6.9.2)."""
        self.send_window += increment
        if self.send_window > LARGEST_WINDOW:
            raise StreamFault(self.stream_id, ErrorCode.FLOW_CONTROL_ERROR, "a window over 2^31-1")
        if self._queue and self.send_window > 0:
            self._owner.outbox.ready(self)

    def return_credit(self) -> None:
        """Let the peer send as much as at first, unless it does not read our answers."""
        if self._queue or self.peer_is_done or self.is_over:
            return
        owner = self._owner
        full = owner.limits.receive_window
        owner.outbox.control(window_update(self.stream_id, full - self.receive_window))
        self.receive_window = full

    def write_turn(self) -> bool:
        """Write one DATA frame of what is queued; whether another one could follow."""
        if self.is_over:
            return False
        if self._queue.is_overflowing:
            text = "the server holds as much as it can of answers that are not read"
            self.fail(StatusCode.RESOURCE_EXHAUSTED, text)
            return False
        failure = self._write_frame()
        if failure is not None:
            self._handler_failed(failure)
        if self.is_over:
            return False
        if self._queue:
            return self.send_window > 0
        if self._end is not None:
            self._finish()
        elif self.receive_window < self._owner.low_water:
            self.return_credit()
        return False

    def fail(self, code: StatusCode, message: str) -> None:
        """End the stream with a status of the transport's, whatever is queued."""
        if self.is_over:
            return
        self._disconnect(code, message)
        self._queue.drop()
        if not self.is_over:
            self._finish()

    def abandon(self, code: StatusCode) -> None:
        """The stream is gone: nothing can be told to the peer any more."""
        if self.is_over:
            return
        nothing_left = self._disconnect(code, "")
        self._over(StatusCode.OK if nothing_left else code)

    def _write_frame(self) -> Exception | None:
        """Write what fits in one frame; returns what a generator raised behind that."""
        outbox = self._owner.outbox
        room = max(0, min(DEFAULT_FRAME_BYTES, outbox.window, self.send_window))
        parts: list[Buffer] = []
        failure = None
        try:
            self._queue.fill(parts, room)
        except Exception as error:  # noqa: BLE001 - logged by the caller
            failure = error
        if parts and not self.is_over:
            if not self._has_head:
                self._send_head()
            outbox.data(self, parts, sum(map(len, parts)))
        return failure

    def _send_head(self) -> None:
        self._has_head = True
        outbox = self._owner.outbox
        outbox.control(response_head(self.stream_id, outbox.is_first_block()))

    def _finish(self) -> None:
        """Send the end. A peer that has more to send is told to keep it (RFC 9113 §8.1)."""
        assert self._end is not None
        self._send_end(self._end)
        if not self.peer_is_done:
            self._owner.not_wanted(self)
        self._over(self._end.code)

    def _send_end(self, end: StreamEnd) -> None:
        outbox = self._owner.outbox
        if self._has_head:
            outbox.control(trailers(self.stream_id, *end))
        else:
            outbox.control(trailers_only(self.stream_id, *end, outbox.is_first_block()))

    def _over(self, code: StatusCode) -> None:
        """Let go of everything, so that a stream's memory is free at once."""
        self.is_over = True
        self._queue.drop()
        self._reader.drop()
        self._handler = None
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        self._method.closed(code, self._opened_at)
        self._owner.release(self)

    def _handler_failed(self, error: Exception) -> None:
        values = self._handler.log_values() if self._handler is not None else {}
        log.error("stream handler failed", method=self._method.path, exc_info=error, **values)
        self.fail(StatusCode.INTERNAL, "internal error")

    def _disconnect(self, code: StatusCode, message: str) -> bool:
        """Tell the handler, unless it has ended the stream itself; what it says to that."""
        was_open = self._end is None
        self._end = StreamEnd(code, message)
        handler, self._handler = self._handler, None
        if handler is None or not was_open:
            return False
        try:
            return handler.on_disconnect()
        except Exception:
            log.exception(
                "stream handler failed to disconnect",
                method=self._method.path,
                **handler.log_values(),
            )
            return False

    def _count_content(self, size: int) -> None:
        self._content_left -= size
        if self._content_left < 0:
            reason = "more DATA than content-length says"
            raise StreamFault(self.stream_id, ErrorCode.PROTOCOL_ERROR, reason)
