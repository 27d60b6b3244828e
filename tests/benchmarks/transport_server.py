"""One transport with one handler as a process of its own: `transport_server native picker`."""

from __future__ import annotations

import asyncio
import gc
import sys

from epp.gateway.service import METHOD, METHOD_NAME, SERVICE_NAME
from epp.support.event_loop import run_in_loop
from epp.transport.grpc_aio import GrpcServer, StreamService
from epp.transport.native.methods import StreamMethod
from epp.transport.native.server import NativeServer
from epp.transport.streams import MessageLimits, Outlet, StreamHandler, StreamHandlerFactory
from tests.benchmarks import state_machine


class Echo:
    """Answers each message with itself."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def on_message(self, message: bytes) -> None:
        self._outlet.send((message,))

    def on_half_close(self) -> None:
        self._outlet.close()

    def on_disconnect(self) -> None:
        """Nothing is kept."""


class Unobserved:
    """Counts nothing."""

    def stream_opened(self) -> None:
        """Nothing to do."""

    def stream_closed(self, code: str, seconds: float) -> None:
        """Nothing to do."""


def _echo(outlet: Outlet) -> StreamHandler:
    return Echo(outlet)


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


async def _serve(transport: str, handler: str) -> None:
    factory = state_machine.processor() if handler == "picker" else _echo
    serving = server(transport, factory)
    port = await serving.start()
    gc.collect()
    gc.freeze()  # as `epp serve` does when it has started
    print(f"port {port}", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await serving.stop(0)


if __name__ == "__main__":
    run_in_loop(_serve(sys.argv[1], sys.argv[2]))
