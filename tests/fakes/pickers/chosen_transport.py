"""Which transport the pickers of this run serve with: `EPP_TEST_TRANSPORT=grpc make test`."""

from __future__ import annotations

import os
from typing import Literal, cast

from epp.gateway.service import METHOD, METHOD_NAME, SERVICE_NAME, ExternalProcessor
from epp.observability.stream_metrics import StreamMetrics
from epp.transport.grpc_aio import GrpcServer, StreamService
from epp.transport.grpc_stream import GrpcStream
from epp.transport.native.methods import StreamMethod
from epp.transport.native.server import NativeServer
from epp.transport.native.stream import Stream
from epp.transport.streams import MessageLimits

TransportName = Literal["grpc", "native"]
TRANSPORT = cast("TransportName", os.environ.get("EPP_TEST_TRANSPORT", "native"))

STREAM: type = Stream if TRANSPORT == "native" else GrpcStream
"""What the transport keeps of each stream."""


def ext_proc_server(
    processor: ExternalProcessor, limits: MessageLimits, observer: StreamMetrics
) -> GrpcServer | NativeServer:
    """An ext_proc port on loopback, not started yet."""
    if TRANSPORT == "native":
        method = StreamMethod(METHOD, processor, limits=limits, observer=observer)
        return NativeServer(address="127.0.0.1", port=0, port_flag="--grpc-port", methods=[method])
    return GrpcServer(
        address="127.0.0.1",
        port=0,
        port_flag="--grpc-port",
        stream_service=StreamService(
            service=SERVICE_NAME,
            method=METHOD_NAME,
            handler_factory=processor,
            limits=limits,
            observer=observer,
        ),
    )
