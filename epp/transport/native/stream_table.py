"""The open streams of one connection, and the frames that belong to streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from epp.transport.native.budgets import Allowance, Budget
from epp.transport.native.frames import (
    END_STREAM,
    PADDED,
    ConnectionFault,
    ErrorCode,
    StreamFault,
    rst_stream,
    window_update,
)
from epp.transport.native.header_assembly import HeaderBlock, unpadded
from epp.transport.native.header_blocks import HeaderBlocks
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.native.outbox import Outbox, Sender, Timer
from epp.transport.native.past_streams import PastStreams
from epp.transport.native.refused_request import RefusedRequest
from epp.transport.native.request_head import RequestHead, trailers_fault
from epp.transport.native.responses import trailers_only
from epp.transport.native.stream import Stream
from epp.transport.streams import StatusCode

_RST_STREAM_BYTES = 4


class StreamTable:
    """Opens, feeds and forgets streams."""

    def __init__(
        self,
        methods: Mapping[bytes, StreamMethod],
        *,
        outbox: Outbox,
        budget: Budget,
        limits: ConnectionLimits,
        call_later: Callable[[float, Callable[[], None]], Timer],
        on_empty: Callable[[], None],
        noise: Allowance,
        resets: Allowance,
    ) -> None:
        self.outbox = outbox
        self.held = budget.held
        self.limits = limits
        self.header_blocks = HeaderBlocks(budget.heads)
        self.last_served_id = 0
        self.takes_streams = True
        """Whether streams that the peer opens are served; others are ignored."""
        self._methods = methods
        self._call_later = call_later
        self._on_empty = on_empty
        self.noise = noise
        self._resets = resets
        self._streams: dict[int, Stream] = {}
        self._all_streams = budget.streams
        self.past = PastStreams()
        self._receive_window = limits.receive_window
        self.low_water = limits.receive_window // 2

    def __len__(self) -> int:
        return len(self._streams)

    def data(self, flags: int, stream_id: int, data: bytes, start: int, end: int) -> None:
        """Take DATA (RFC 9113 §6.1)."""
        size = end - start
        self._receive_window -= size
        if self._receive_window < self.low_water:
            self._return_credit_of_connection()
        stream = self._streams.get(stream_id)
        if stream is None:
            self._on_closed(stream_id)
            return
        if stream.peer_is_done:
            raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED, "DATA after END_STREAM")
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamFault(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "more DATA than allowed")
        if flags & PADDED:
            start, end = unpadded(data, start, end)
        if flags & END_STREAM:
            stream.peer_is_done = True
            stream.receive(data, start, end)
            stream.receive_end()
            return
        if start == end:
            self.spend_noise()
        stream.receive(data, start, end)
        if stream.receive_window < self.low_water:
            stream.return_credit()

    def headers(self, header_block: HeaderBlock) -> None:
        """Take a whole header block (RFC 9113 §8.1)."""
        stream_id, end_stream, depends_on_itself, block = header_block
        stream = self._streams.get(stream_id)
        if stream is not None or not self.past.is_idle(stream_id) or stream_id % 2 == 0:
            trailers = self.header_blocks.others(block)
            if stream is None:
                self._on_closed(stream_id, is_headers=True)
                return
            if stream.peer_is_done:
                raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED, "HEADERS after END_STREAM")
            if not end_stream or depends_on_itself or trailers_fault(trailers):
                raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "malformed trailers")
            stream.receive_end()
            return
        self.past.last_id = stream_id
        head = self.header_blocks.request(block)
        if not self.takes_streams:
            self.past.add(stream_id)  # RFC 9113 §6.8: the peer tries them elsewhere
        elif depends_on_itself or head.malformed:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, head.malformed)
        elif len(self._streams) >= self.limits.max_streams:
            raise StreamFault(stream_id, ErrorCode.REFUSED_STREAM, "too many streams")
        elif self._all_streams.is_exhausted:
            self._reset(stream_id, ErrorCode.REFUSED_STREAM)  # for which others are to blame
        else:
            self.last_served_id = stream_id
            self._open(stream_id, head, end_stream)

    def rst_stream(self, stream_id: int, payload: bytes) -> None:
        """The peer gave a stream up (RFC 9113 §6.4)."""
        if len(payload) != _RST_STREAM_BYTES:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM of a wrong size")
        self.past.check_not_idle(stream_id)
        stream = self._streams.get(stream_id)
        if stream is None:
            self.spend_noise()
        else:
            stream.abandon(StatusCode.CANCELLED)
            self._spend_reset()

    def fault(self, fault: StreamFault) -> None:
        """Give up a stream on which the peer broke a rule."""
        self._spend_reset()
        stream = self._streams.get(fault.stream_id)
        if stream is not None:
            stream.abandon(StatusCode.INTERNAL)
        elif self.past.is_idle(fault.stream_id):  # RFC 9113 §6.4: idle streams can't be reset
            raise ConnectionFault(fault.code, str(fault)) from fault
        self._reset(fault.stream_id, fault.code)

    def widen(self, stream_id: int, increment: int) -> None:
        """The peer takes more on one stream."""
        stream = self._streams.get(stream_id)
        if stream is None:
            self.past.check_not_idle(stream_id)
        else:
            stream.widen(increment)

    def change_initial_window(self, window: int) -> None:
        """RFC 9113 §6.9.2: of open streams, too, whose windows may become negative."""
        change = window - self.outbox.initial_window
        self.outbox.initial_window = window
        try:
            for stream in self._streams.values():
                stream.widen(change)
        except StreamFault as fault:
            raise ConnectionFault(fault.code, str(fault)) from fault

    def not_wanted(self, stream: Sender) -> None:
        """The stream ended while its peer still sends."""
        self._reset(stream.stream_id, ErrorCode.NO_ERROR)

    def release(self, stream: Sender) -> None:
        """A stream is over."""
        if self._streams.pop(stream.stream_id, None) is not None:
            self._all_streams.count -= 1
        self.outbox.forget(stream)
        if not self._streams:
            self._on_empty()

    def end_all(self, end: Callable[[Stream], None]) -> None:
        """Do away with every stream."""
        for stream in list(self._streams.values()):
            end(stream)

    def spend_noise(self, frames: int = 1) -> None:
        """Count frames that bring nothing."""
        if not self.noise.spend(frames):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames for nothing")

    def _open(self, stream_id: int, head: RequestHead, end_stream: bool) -> None:
        method = self._methods.get(head.path)
        if head.refusal:
            stream: Stream = RefusedRequest(stream_id, self, head)
        elif method is None:
            text = "unknown service or method"
            self._refuse(stream_id, StatusCode.UNIMPLEMENTED, text, end_stream)
            return
        elif head.bad_timeout:
            self._refuse(stream_id, StatusCode.INTERNAL, "malformed grpc-timeout", end_stream)
            return
        else:
            stream = Stream(stream_id, self, head, method)
        self._streams[stream_id] = stream
        self._all_streams.count += 1
        if head.timeout is not None:
            late = partial(stream.fail, StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            stream.deadline = self._call_later(head.timeout, late)
        stream.peer_is_done = end_stream
        stream.start()
        if end_stream:
            stream.receive_end()

    def _refuse(self, stream_id: int, code: StatusCode, message: str, end_stream: bool) -> None:
        outbox = self.outbox
        outbox.control(trailers_only(stream_id, code, message, outbox.is_first_block()))
        if not end_stream:
            self._reset(stream_id, ErrorCode.NO_ERROR)

    def _return_credit_of_connection(self) -> None:
        if self._receive_window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than allowed")
        full = self.limits.receive_window
        self.outbox.control(window_update(0, full - self._receive_window))
        self._receive_window = full

    def _on_closed(self, stream_id: int, *, is_headers: bool = False) -> None:
        """A frame for a stream that is not open (RFC 9113 §5.1)."""
        self.past.check_not_idle(stream_id)
        self.spend_noise()
        self.past.check_late(stream_id, is_headers=is_headers)

    def _reset(self, stream_id: int, code: ErrorCode) -> None:
        self.outbox.control(rst_stream(stream_id, code))
        self.past.add(stream_id)

    def _spend_reset(self) -> None:
        if not self._resets.spend():
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams that are reset")
