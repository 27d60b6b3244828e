from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from epp.app import grpc_ports, native_ports
from epp.app.stream_ports import StreamPorts, StreamServer
from epp.framework.errors import ConfigError
from epp.gateway.health import HealthState
from epp.gateway.health_methods import health_methods
from epp.gateway.health_service import health_handler
from tests.fakes.transport.native_streams import native_server
from tests.fakes.transport.streams import TellingHandler, stream_server

EXT_PROC = "envoy.service.ext_proc.v3.ExternalProcessor"
READINESS = ["", "readiness", EXT_PROC, "inference-extension"]

Response = health_pb2.HealthCheckResponse


@pytest.fixture
def state() -> HealthState:
    return HealthState()


@pytest.fixture(
    params=[
        lambda state: grpc_ports.health_server(state, "127.0.0.1", 0),
        lambda state: native_ports.health_server(state, "127.0.0.1", 0),
        lambda state: stream_server(TellingHandler, handlers=[health_handler(state)]),
        lambda state: native_server(TellingHandler, methods=health_methods(state)),
    ],
    ids=["health port", "native health port", "ext_proc port", "native ext_proc port"],
)
def server(request: pytest.FixtureRequest, state: HealthState) -> StreamServer:
    made: StreamServer = request.param(state)
    return made


@pytest.fixture(params=[grpc_ports, native_ports], ids=["grpc", "native"])
def ports(request: pytest.FixtureRequest) -> StreamPorts:
    made: StreamPorts = request.param
    return made


@pytest.fixture
async def health(
    server: StreamServer, state: HealthState
) -> AsyncIterator[health_pb2_grpc.HealthStub]:
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield health_pb2_grpc.HealthStub(channel)
    state.close()
    await server.stop(5)


async def status(health: health_pb2_grpc.HealthStub, service: str) -> int:
    answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
    return int(answer.status)


async def test_names_before_sync_after_sync_and_draining(
    state: HealthState, health: health_pb2_grpc.HealthStub
) -> None:
    async def statuses() -> tuple[set[int], int]:
        readiness = {await status(health, name) for name in [*READINESS, "stranger"]}
        return readiness, await status(health, "liveness")

    assert await statuses() == ({Response.NOT_SERVING}, Response.SERVING)
    state.set_synced(True)
    assert await statuses() == ({Response.SERVING}, Response.SERVING)
    state.set_draining()
    assert await statuses() == ({Response.NOT_SERVING}, Response.SERVING)


async def test_list_gives_every_name(
    state: HealthState, health: health_pb2_grpc.HealthStub
) -> None:
    answer = await health.List(health_pb2.HealthListRequest())

    assert {name: entry.status for name, entry in answer.statuses.items()} == {
        **dict.fromkeys(READINESS, Response.NOT_SERVING),
        "liveness": Response.SERVING,
    }


async def test_watch_tells_each_change_and_ends_with_the_state(
    state: HealthState, health: health_pb2_grpc.HealthStub
) -> None:
    watch = health.Watch(health_pb2.HealthCheckRequest(service="readiness"))

    assert (await watch.read()).status == Response.NOT_SERVING
    state.set_synced(True)
    assert (await watch.read()).status == Response.SERVING
    state.set_draining()
    assert (await watch.read()).status == Response.NOT_SERVING
    state.close()
    assert await watch.read() is grpc.aio.EOF


async def test_an_unknown_name_is_told_apart_under_election(ports: StreamPorts) -> None:
    state = HealthState(has_election=True)
    server = ports.health_server(state, "127.0.0.1", 0)
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service="stranger"))

        assert await status(health, "stranger") == Response.SERVICE_UNKNOWN
        assert (await watch.read()).status == Response.SERVICE_UNKNOWN
    state.close()
    await server.stop(5)


async def test_a_taken_port_is_an_error_that_names_the_flag(
    state: HealthState, ports: StreamPorts
) -> None:
    first = ports.health_server(state, "127.0.0.1", 0)
    port = await first.start()
    second = ports.health_server(state, "127.0.0.1", port)

    with pytest.raises(ConfigError, match=f"--grpc-health-port: can't listen on 127.0.0.1:{port}"):
        await second.start()

    await first.stop(0)
