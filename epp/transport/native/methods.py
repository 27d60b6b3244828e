"""What is served under which path."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog

from epp.transport.streams import (
    GO_NAMES,
    MessageLimits,
    Outlet,
    StatusCode,
    StreamHandler,
    StreamHandlerFactory,
    StreamObserver,
)

log = structlog.get_logger(__name__)


class StreamMethod:
    """A method whose streams get a handler each, and who counts them."""

    def __init__(
        self,
        path: str,
        handler_factory: StreamHandlerFactory,
        *,
        limits: MessageLimits | None = None,
        observer: StreamObserver | None = None,
    ) -> None:
        self.path = path
        self.handler_factory = handler_factory
        self.limits = limits or MessageLimits()
        self._observer = observer
        self._has_named_limit = False

    def opened(self) -> float:
        """Count a stream in; the moment is for `closed`."""
        if self._observer is None:
            return 0.0
        self._observer.stream_opened()
        return time.monotonic()

    def closed(self, code: StatusCode, opened_at: float) -> None:
        """Count it out."""
        if self._observer is not None:
            self._observer.stream_closed(GO_NAMES[code], time.monotonic() - opened_at)

    def refused(self, size: int) -> None:
        """Say once which flag lets larger messages in."""
        if not self._has_named_limit:
            self._has_named_limit = True
            log.warning(
                "message larger than the receive limit, raise it (said once)",
                flag=self.limits.receive_flag,
                limit_bytes=self.limits.max_receive_bytes,
                message_bytes=size,
            )


class CallFailed(Exception):
    """A unary method ends with this status instead of an answer."""

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def unary(answer: Callable[[bytes], bytes]) -> StreamHandlerFactory:
    """Streams of a method that answers one message with one."""

    def factory(outlet: Outlet) -> StreamHandler:
        return _UnaryCall(outlet, answer)

    return factory


class _UnaryCall:
    def __init__(self, outlet: Outlet, answer: Callable[[bytes], bytes]) -> None:
        self._outlet = outlet
        self._answer = answer
        self._question: bytes | None = None

    def on_message(self, message: bytes) -> None:
        if self._question is not None:
            self._outlet.close(StatusCode.INTERNAL, "more than one message for a unary method")
        self._question = message

    def on_half_close(self) -> None:
        if self._question is None:
            self._outlet.close(StatusCode.INTERNAL, "no message for a unary method")
            return
        try:
            self._outlet.send((self._answer(self._question),))
        except CallFailed as failure:
            self._outlet.close(failure.code, failure.message)
        self._outlet.close()

    def on_disconnect(self) -> bool:
        """Nothing is kept."""
        return False

    def log_values(self) -> Mapping[str, str]:
        """Such a call is about nothing that is told apart."""
        return {}
