"""The test service on the native transport."""

from __future__ import annotations

from collections.abc import Sequence

from epp.transport.crowding import MAX_CONNECTIONS, HandshakeLimits, LimitObserver, unobserved
from epp.transport.native.keepalive import Patience
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.native.server import (
    MAX_HELD_BYTES,
    MAX_STREAMS,
    NativeServer,
)
from epp.transport.native.tls import ServerTls
from epp.transport.streams import MessageLimits, StreamHandlerFactory
from tests.fakes.transport.streams import METHOD, SERVICE, CountingObserver

PATH = f"/{SERVICE}/{METHOD}"


def native_server(
    factory: StreamHandlerFactory,
    *,
    methods: Sequence[StreamMethod] = (),
    limits: MessageLimits | None = None,
    observer: CountingObserver | None = None,
    tls: ServerTls | None = None,
    connection_limits: ConnectionLimits | None = None,
    patience: Patience | None = None,
    max_held_bytes: int = MAX_HELD_BYTES,
    max_streams: int = MAX_STREAMS,
    max_connections: int = MAX_CONNECTIONS,
    spares_newest: bool = False,
    handshakes: HandshakeLimits | None = None,
    observe_limits: LimitObserver = unobserved,
) -> NativeServer:
    """A server, not started yet."""
    return NativeServer(
        address="127.0.0.1",
        port=0,
        port_flag="--grpc-port",
        methods=[
            StreamMethod(PATH, factory, limits=limits, observer=observer or CountingObserver()),
            *methods,
        ],
        tls=tls,
        limits=connection_limits,
        patience=patience,
        max_held_bytes=max_held_bytes,
        max_streams=max_streams,
        max_connections=max_connections,
        spares_newest=spares_newest,
        handshakes=handshakes,
        observe_limits=observe_limits,
    )
