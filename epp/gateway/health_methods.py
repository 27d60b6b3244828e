"""The gRPC health service for the native transport, beside ext_proc on its port."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from epp.gateway.health import HealthState, ServingStatus
from epp.transport.native.methods import CallFailed, StreamMethod, unary
from epp.transport.streams import MessageLimits, Outlet, StatusCode, StreamHandler

_SERVICE = "/grpc.health.v1.Health/"
MAX_HEALTH_MESSAGE_BYTES = 4 * 1024
"""It holds a name."""
_LIMITS = MessageLimits(
    max_receive_bytes=MAX_HEALTH_MESSAGE_BYTES, receive_flag="the health service"
)


def health_methods(state: HealthState) -> list[StreamMethod]:
    """Check, List and Watch."""

    def check(message: bytes) -> bytes:
        # An unknown name is a status in an OK answer, as with the reference (protocol §10.4).
        return _response(state.conditions.status_of(_service_of(message)))

    def list_all(_: bytes) -> bytes:
        statuses = {
            name: health_pb2.HealthCheckResponse(status=status)
            for name, status in state.conditions.statuses().items()
        }
        answer: bytes = health_pb2.HealthListResponse(statuses=statuses).SerializeToString()
        return answer

    def watch(outlet: Outlet) -> StreamHandler:
        return _Watch(outlet, state)

    return [
        StreamMethod(_SERVICE + "Check", unary(check), limits=_LIMITS),
        StreamMethod(_SERVICE + "List", unary(list_all), limits=_LIMITS),
        StreamMethod(_SERVICE + "Watch", watch, limits=_LIMITS),
    ]


class _Watch:
    """Tells the status under one name, and again each time that it is another one."""

    def __init__(self, outlet: Outlet, state: HealthState) -> None:
        self._outlet = outlet
        self._state = state
        self._status: Callable[[], ServingStatus] | None = None
        self._told: ServingStatus | None = None

    def on_message(self, message: bytes) -> None:
        if self._status is not None:
            return
        try:
            service = _service_of(message)
        except CallFailed as failure:
            self._outlet.close(failure.code, failure.message)
            return
        self._status = lambda: self._state.conditions.status_of(service)
        self._state.watch(self, self._tell)
        self._tell()

    def on_half_close(self) -> None:
        if self._status is None:
            self._outlet.close(StatusCode.INTERNAL, "no message for a method that takes one")

    def on_disconnect(self) -> bool:
        self._state.unwatch(self)
        return False

    def log_values(self) -> Mapping[str, str]:
        return {}

    def _tell(self) -> None:
        if self._state.is_closed:
            self._state.unwatch(self)
            self._outlet.close()
            return
        assert self._status is not None
        status = self._status()
        if status is not self._told:
            self._told = status
            self._outlet.send((_response(status),))


def _service_of(message: bytes) -> str:
    try:
        return str(health_pb2.HealthCheckRequest.FromString(message).service)
    except DecodeError as error:
        text = "the message is not a HealthCheckRequest"
        raise CallFailed(StatusCode.INTERNAL, text) from error


def _response(status: ServingStatus) -> bytes:
    answer: bytes = health_pb2.HealthCheckResponse(status=status).SerializeToString()
    return answer
