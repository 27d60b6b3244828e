"""The ext_proc method on one transport, with nothing around it."""

from __future__ import annotations

from epp.gateway.service import METHOD, METHOD_NAME, SERVICE_NAME
from epp.transport.grpc_aio import GrpcServer, StreamService
from epp.transport.native.methods import StreamMethod
from epp.transport.native.server import NativeServer
from epp.transport.streams import MessageLimits, StreamHandlerFactory


class Unobserved:
    """Counts nothing."""

    def stream_opened(self) -> None:
        """Nothing to do."""

    def stream_closed(self, code: str, seconds: float) -> None:
        """Nothing to do."""


def server(transport: str, factory: StreamHandlerFactory) -> GrpcServer | NativeServer:
    """A server on a port of the system's choice, not started."""
    if transport == "native":
        method = StreamMethod(METHOD, factory, observer=Unobserved())
        return NativeServer(address="127.0.0.1", port=0, port_flag="--port", methods=[method])
    service = StreamService(
        service=SERVICE_NAME,
        method=METHOD_NAME,
        handler_factory=factory,
        limits=MessageLimits(),
        observer=Unobserved(),
    )
    return GrpcServer(address="127.0.0.1", port=0, port_flag="--port", stream_service=service)
