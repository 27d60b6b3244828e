"""Ports on the native transport (see `stream_ports`)."""

from __future__ import annotations

from epp.app.stream_ports import HEALTH_CONNECTIONS, ExtProcPort
from epp.gateway.health import HealthState
from epp.gateway.health_methods import MAX_HEALTH_MESSAGE_BYTES, health_methods
from epp.gateway.service import METHOD
from epp.transport.crowding import OTHERS_PART, LimitObserver, unobserved
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.native.server import MAX_STREAMS, NativeServer

# Probes ask once in a while, and nothing stands before this port: far less than ext_proc may cost.
# All connections together reach neither of the other limits, so that none takes it from a probe.
HEALTH_STREAMS_PER_CONNECTION = 16
HEALTH_STREAMS = HEALTH_CONNECTIONS * HEALTH_STREAMS_PER_CONNECTION
HEALTH_HELD_BYTES = HEALTH_STREAMS * MAX_HEALTH_MESSAGE_BYTES


def ext_proc_server(port: ExtProcPort) -> NativeServer:
    """Serves ext_proc."""
    tls = None
    if port.certificates is not None:
        tls = port.tls.server_tls(port.certificates.pair)
        port.certificates.give_to(tls.replace)
    method = StreamMethod(METHOD, port.processor, limits=port.limits, observer=port.observer)
    return NativeServer(
        address=port.address,
        port=port.port,
        port_flag="--grpc-port",
        methods=[method, *(health_methods(port.health) if port.health is not None else ())],
        tls=tls,
        # Well over what is answered with 503, which a gateway understands better.
        max_streams=max(MAX_STREAMS, 3 * port.max_streams),
        observe_limits=port.observe_limits,
    )


def health_server(
    health: HealthState, address: str, port: int, observe_limits: LimitObserver = unobserved
) -> NativeServer:
    """Serves what probes ask, in plaintext."""
    return NativeServer(
        address=address,
        port=port,
        port_flag="--grpc-health-port",
        methods=health_methods(health),
        max_held_bytes=HEALTH_HELD_BYTES,
        max_streams=HEALTH_STREAMS,
        max_connections=HEALTH_CONNECTIONS,
        part_of_files=OTHERS_PART,
        limits=ConnectionLimits(max_streams=HEALTH_STREAMS_PER_CONNECTION),
        # A probe that is shut out gets the pod restarted; each connects anew, and is soon gone.
        spares_newest=True,
        observe_limits=observe_limits,
    )
