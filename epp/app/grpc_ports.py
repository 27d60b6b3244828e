"""Ports on grpcio (see `stream_ports`)."""

from __future__ import annotations

from epp.app.stream_ports import HEALTH_CONNECTIONS, ExtProcPort
from epp.gateway.health import HealthState
from epp.gateway.health_service import health_handler
from epp.gateway.service import METHOD_NAME, SERVICE_NAME
from epp.transport.crowding import OTHERS_PART, LimitObserver, unobserved
from epp.transport.grpc_aio import GrpcServer, StreamService
from epp.transport.grpc_credentials import server_credentials


def ext_proc_server(port: ExtProcPort) -> GrpcServer:
    """Serves ext_proc."""
    return GrpcServer(
        address=port.address,
        port=port.port,
        port_flag="--grpc-port",
        handlers=[health_handler(port.health)] if port.health is not None else [],
        stream_service=StreamService(
            service=SERVICE_NAME,
            method=METHOD_NAME,
            handler_factory=port.processor,
            limits=port.limits,
            observer=port.observer,
        ),
        credentials=server_credentials(port.certificates) if port.certificates else None,
    )


def health_server(
    health: HealthState, address: str, port: int, observe_limits: LimitObserver = unobserved
) -> GrpcServer:
    """Serves what probes ask, in plaintext. grpcio tells of no limit, so none is observed."""
    return GrpcServer(
        address=address,
        port=port,
        port_flag="--grpc-health-port",
        handlers=[health_handler(health)],
        max_connections=HEALTH_CONNECTIONS,
        part_of_files=OTHERS_PART,
    )
