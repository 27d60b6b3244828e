"""What a transport and a stream's handler know of each other: messages as bytes, nothing else.

One bidirectional gRPC stream has one handler. The transport calls it, one call at a time, from the
event loop; the handler never blocks and answers through its outlet, at once or later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class StatusCode(IntEnum):
    """gRPC status codes a handler or transport ends a stream with."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


# Names as in Go, which dashboards of stream metrics match on.
GO_NAMES = {
    StatusCode.OK: "OK",
    StatusCode.CANCELLED: "Canceled",
    StatusCode.UNKNOWN: "Unknown",
    StatusCode.INVALID_ARGUMENT: "InvalidArgument",
    StatusCode.DEADLINE_EXCEEDED: "DeadlineExceeded",
    StatusCode.RESOURCE_EXHAUSTED: "ResourceExhausted",
    StatusCode.UNIMPLEMENTED: "Unimplemented",
    StatusCode.INTERNAL: "Internal",
    StatusCode.UNAVAILABLE: "Unavailable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLimits:
    """Largest message in either direction, in bytes; None is unlimited."""

    max_receive_bytes: int | None = None
    max_send_bytes: int | None = None
    receive_flag: str = "--grpc-max-recv-msg-size"


class Outlet(Protocol):
    """The way back to the peer."""

    def send(self, messages: Iterable[bytes]) -> None:
        """Queue messages, in order. A generator is drained only as fast as the peer reads, and
        closed when the stream ends before that."""

    def close(self, code: StatusCode = StatusCode.OK, message: str = "") -> None:
        """End the stream once everything queued has gone out. Later sends are dropped."""

    def fail(self, code: StatusCode, message: str) -> None:
        """End the stream now, whatever is queued; the handler is told as if the peer had left."""


class StreamHandler(Protocol):
    """One stream's state machine."""

    def on_message(self, message: bytes) -> None:
        """The peer sent a message."""

    def on_half_close(self) -> None:
        """The peer will send nothing more; it still reads."""

    def on_disconnect(self) -> bool:
        """The stream is gone before `Outlet.close` was called. Called at most once, last.

        Gives whether nothing was left to do: such a stream counts as OK, since there are gateways
        that end every stream by a reset.
        """

    def log_values(self) -> Mapping[str, str]:
        """What log lines about the stream say of it; nothing as long as nothing is known."""


StreamHandlerFactory = Callable[[Outlet], StreamHandler]


class StreamObserver(Protocol):
    """Counts streams; codes are named as in Go: OK, Canceled, Unavailable."""

    def stream_opened(self) -> None:
        """A stream began."""

    def stream_closed(self, code: str, seconds: float) -> None:
        """It ended, however it ended."""
