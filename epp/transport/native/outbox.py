"""What is about to be written on one connection, and which streams wait to write more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from epp.transport.native.frames import (
    DATA,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW,
    END_STREAM,
    HEADER,
    LARGEST_WINDOW,
    MESSAGE_HEADER,
    ConnectionFault,
    ErrorCode,
)
from epp.transport.native.messages import PREFIX_BYTES

_ENOUGH_BYTES = 256 * 1024
"""Of DATA for one write; more waits in its stream until that is on its way."""
_MOST_CONTROL_FRAMES = 10_000
"""Of those that have not left the process (RFC 9113 §10.5)."""

Buffer = bytes | memoryview

_pack = MESSAGE_HEADER.pack


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Do not call back."""


class Sender(Protocol):
    """A stream, as far as it writes."""

    stream_id: int
    send_window: int

    def write_turn(self) -> bool:
        """Write one DATA frame of what is queued; whether another one could follow."""


class Outbox:
    """Collects frames until the protocol takes them."""

    __slots__ = (
        "_chunks",
        "_control_frames",
        "_has_sent_block",
        "_ready",
        "_wake",
        "data_frames",
        "initial_window",
        "is_collecting",
        "is_paused",
        "size",
        "window",
    )

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._chunks: list[Buffer] = []
        self._ready: OrderedDict[int, Sender] = OrderedDict()
        self._control_frames = 0
        self._has_sent_block = False
        self.is_collecting = False
        """Whether somebody takes the output at the end of this turn anyway."""
        self.is_paused = False
        """Whether what was written before has not left the process yet."""
        self.size = 0
        self.window = DEFAULT_WINDOW
        self.initial_window = DEFAULT_WINDOW
        self.data_frames = 0

    @property
    def has_more(self) -> bool:
        """Whether a stream could write as soon as there is room."""
        return bool(self._ready) and self.window > 0 and not self.is_paused

    def take(self) -> bytes:
        """Everything collected, for one write."""
        if self._ready:
            self._pump()
        chunks = self._chunks
        if not chunks:
            return b""
        self._chunks = []
        self.size = 0
        if not self.is_paused:
            self._control_frames = 0
        return b"".join(chunks)

    def check(self) -> None:
        """Raises when the peer asks and asks, and does not read the answers."""
        if self.is_paused and self._control_frames > _MOST_CONTROL_FRAMES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "answers are not read")

    def control(self, frame: bytes) -> None:
        """Send a frame that no window holds back."""
        self._control_frames += 1
        self._chunks.append(frame)
        if not self.is_collecting:
            self._wake()

    def data(
        self, stream: Sender, parts: Sequence[Buffer], size: int, *, end_stream: bool = False
    ) -> None:
        """Send one DATA frame, for which there is room in every window."""
        chunks = self._chunks
        flags = END_STREAM if end_stream else 0
        chunks.append(HEADER.pack(size >> 8, size & 0xFF, DATA, flags, stream.stream_id))
        chunks += parts
        self.size += size
        self.window -= size
        stream.send_window -= size
        self.data_frames += 1

    def message(self, stream: Sender, message: bytes) -> bool:
        """Send a gRPC message in a DATA frame of its own; False where it has to wait its turn.

        Most of what is ever sent goes this way: the answers to a response's pieces.
        """
        size = len(message)
        framed = size + PREFIX_BYTES
        if (
            framed > stream.send_window
            or framed > self.window
            or framed > DEFAULT_FRAME_BYTES
            or self._ready
            or self.is_paused
            or self.size > _ENOUGH_BYTES
        ):
            return False
        self._chunks += (
            _pack(framed >> 8, framed & 0xFF, DATA, 0, stream.stream_id, 0, size),
            message,
        )
        self.size += framed
        self.window -= framed
        stream.send_window -= framed
        self.data_frames += 1
        if not self.is_collecting:
            self._wake()
        return True

    def is_first_block(self) -> bool:
        """Whether the header block about to be sent is this connection's first."""
        is_first = not self._has_sent_block
        self._has_sent_block = True
        return is_first

    def ready(self, stream: Sender) -> None:
        """Give a stream its turn to write, after the others."""
        if stream.stream_id not in self._ready:
            self._ready[stream.stream_id] = stream
            if not self.is_collecting:
                self._wake()

    def forget(self, stream: Sender) -> None:
        """It is over."""
        self._ready.pop(stream.stream_id, None)

    def widen(self, increment: int) -> None:
        """The peer takes more on the whole connection."""
        self.window += increment
        if self.window > LARGEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window over 2^31-1")

    def _pump(self) -> None:
        ready = self._ready
        was_collecting, self.is_collecting = self.is_collecting, True
        while ready and self.size < _ENOUGH_BYTES and self.window > 0 and not self.is_paused:
            stream_id, stream = ready.popitem(last=False)
            if stream.write_turn():
                ready[stream_id] = stream
        self.is_collecting = was_collecting
