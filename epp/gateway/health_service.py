"""The gRPC health service, on a port of its own and beside ext_proc."""

from __future__ import annotations

from typing import Any

import grpc
from grpc_health.v1 import health_pb2

from epp.gateway.health import HealthState, ServingStatus

_SERVICE = "grpc.health.v1.Health"


def health_handler(state: HealthState) -> grpc.GenericRpcHandler:
    """Check, List and Watch, for any server."""
    service = _HealthService(state)
    return grpc.method_handlers_generic_handler(
        _SERVICE,
        {
            "Check": grpc.unary_unary_rpc_method_handler(
                service.check,
                health_pb2.HealthCheckRequest.FromString,
                health_pb2.HealthCheckResponse.SerializeToString,
            ),
            "List": grpc.unary_unary_rpc_method_handler(
                service.list,
                health_pb2.HealthListRequest.FromString,
                health_pb2.HealthListResponse.SerializeToString,
            ),
            "Watch": grpc.unary_stream_rpc_method_handler(
                service.watch,
                health_pb2.HealthCheckRequest.FromString,
                health_pb2.HealthCheckResponse.SerializeToString,
            ),
        },
    )


class _HealthService:
    def __init__(self, state: HealthState) -> None:
        self._state = state

    async def check(
        self, request: health_pb2.HealthCheckRequest, _: grpc.aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthCheckResponse:
        # An unknown name is a status in an OK answer, as with the reference (protocol §10.4).
        return _response(self._state.conditions.status_of(request.service))

    async def list(
        self, _request: health_pb2.HealthListRequest, _: grpc.aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthListResponse:
        statuses = self._state.conditions.statuses()
        return health_pb2.HealthListResponse(
            statuses={name: _response(status) for name, status in statuses.items()}
        )

    async def watch(
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        told: ServingStatus | None = None
        while not self._state.is_closed:
            status = self._state.conditions.status_of(request.service)
            if status is told:
                await self._state.changed()
            else:
                await context.write(_response(status))
                told = status


def _response(status: ServingStatus) -> health_pb2.HealthCheckResponse:
    return health_pb2.HealthCheckResponse(status=status)
