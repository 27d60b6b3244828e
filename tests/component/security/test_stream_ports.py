"""What peers of the ext_proc port and of the health port can and can't do."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from epp.app.native_ports import health_server
from epp.gateway.health import HealthState
from epp.transport.native.frames import PREFACE, SETTINGS, frame
from tests.fakes.certificates import untrusting
from tests.fakes.pickers.applications import options_for_tests, running
from tests.fakes.pool_files import MANIFEST
from tests.fakes.transport.listening import listening
from tests.fakes.transport.raw_http import said_to

GREETING = PREFACE + frame(SETTINGS, 0, 0)
MOST_PROBES = 256
MOST_WATCHED = 16


@pytest.fixture
def pool_file(tmp_path: Path) -> Path:
    path = tmp_path / "pool.yaml"
    path.write_text(MANIFEST)
    return path


def client_context(version: ssl.TLSVersion, protocol: str = "h2") -> ssl.SSLContext:
    context = untrusting(protocol)
    context.set_ciphers("ALL:@SECLEVEL=0")  # else the client itself would refuse what is old
    context.minimum_version = context.maximum_version = version
    return context


@asynccontextmanager
async def serving_tls(pool_file: Path) -> AsyncIterator[int]:
    """The ext_proc port as it is by default."""
    options = options_for_tests(pool_file=pool_file, secure_serving=True, transport="native")
    async with running(options) as (_, ports):
        yield ports.grpc


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_the_ext_proc_port_speaks_no_tls_before_1_2(
    pool_file: Path, version: ssl.TLSVersion
) -> None:
    async with serving_tls(pool_file) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await said_to(port, GREETING, client_context(version))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_within_tls_it_speaks_nothing_but_http_2(
    pool_file: Path, version: ssl.TLSVersion
) -> None:
    async with serving_tls(pool_file) as port:
        context = client_context(version, "http/1.1")
        with suppress(ssl.SSLError, ConnectionError):
            assert await said_to(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", context) == b""


@pytest.mark.parametrize("said", [GREETING, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
async def test_with_tls_plaintext_is_told_nothing(pool_file: Path, said: bytes) -> None:
    async with serving_tls(pool_file) as port:
        assert await said_to(port, said) == b""


async def test_http_1_on_a_plaintext_port_is_no_request_and_is_not_sent_back() -> None:
    async with listening(health_server(HealthState(), "127.0.0.1", 0)) as port:
        answer = await said_to(port, b"GET /S3CRET HTTP/1.1\r\nHost: a\r\n\r\n")

    assert answer.endswith(b"this port speaks HTTP/2 only")
    assert b"S3CRET" not in answer


async def test_the_health_port_takes_few_connections_and_shuts_out_no_probe() -> None:
    loop = asyncio.get_running_loop()
    async with listening(health_server(HealthState(), "127.0.0.1", 0)) as port:
        with ExitStack() as stack:
            clients = []
            for _ in range(MOST_PROBES + 1):
                client = stack.enter_context(socket.socket())
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", port))
                clients.append(client)
            await loop.sock_sendall(clients[-1], GREETING)
            assert await loop.sock_recv(clients[-1], 1) != b""
            with suppress(ConnectionResetError):
                while await loop.sock_recv(clients[0], 65_536):
                    pass


async def test_a_connection_that_watches_a_lot_waits_and_keeps_no_other_from_asking() -> None:
    """Nothing but watching holds a stream open on the health port."""
    request = health_pb2.HealthCheckRequest()
    async with (
        listening(health_server(HealthState(), "127.0.0.1", 0)) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]
        ) as probe,
    ):
        watch = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        calls = [watch(request) for _ in range(MOST_WATCHED)]
        for call in calls:
            await call.read()
        waiting = watch(request)

        answer = await health_pb2_grpc.HealthStub(probe).Check(request)
        calls.pop().cancel()
        late = await waiting.read()

        assert answer == late
        for call in (*calls, waiting):
            call.cancel()


async def test_a_message_too_large_for_a_health_check_is_refused() -> None:
    async with (
        listening(health_server(HealthState(), "127.0.0.1", 0)) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await check(b"\x0a" * 5_000)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
