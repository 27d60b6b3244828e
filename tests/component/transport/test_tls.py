from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import grpc
import pytest

from epp.transport.certificates import CertificatePair, Certificates
from epp.transport.grpc_credentials import server_credentials
from epp.transport.native.tls import ServerTls
from tests.fakes.certificates import certificate_of, new_pair, shake_hands, write_pair
from tests.fakes.logs import awaitable_logs, until_logged
from tests.fakes.transport.listening import listening
from tests.fakes.transport.native_streams import PATH, native_server
from tests.fakes.transport.streams import TellingHandler, stream_server

MIB = 1024 * 1024

TlsServer = Callable[[Certificates], AbstractAsyncContextManager[int]]


def on_grpc(certificates: Certificates) -> AbstractAsyncContextManager[int]:
    credentials = server_credentials(certificates)
    return listening(stream_server(TellingHandler, credentials=credentials))


def on_native(certificates: Certificates) -> AbstractAsyncContextManager[int]:
    tls = ServerTls(certificates.pair)
    certificates.give_to(tls.replace)
    return listening(native_server(TellingHandler, tls=tls))


@pytest.fixture(params=[on_grpc, on_native], ids=["grpc.aio", "native"])
def tls_server(request: pytest.FixtureRequest) -> TlsServer:
    """Servers of one transport, then of the other."""
    server: TlsServer = request.param
    return server


@asynccontextmanager
async def open_call(
    port: int, pair: CertificatePair
) -> AsyncIterator[grpc.aio.StreamStreamCall[bytes, bytes]]:
    credentials = grpc.ssl_channel_credentials(root_certificates=pair.chain)
    options = (("grpc.max_receive_message_length", -1),)
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials, options) as channel:
        yield channel.stream_stream(PATH)()


async def test_a_certificate_is_shown_and_h2_agreed_on(tls_server: TlsServer) -> None:
    pair = new_pair()
    async with tls_server(Certificates(pair)) as port:
        handshake = await shake_hands(port)

    assert handshake.protocol == "h2"
    assert handshake.certificate == certificate_of(pair)


async def test_large_messages_go_through_tls(tls_server: TlsServer) -> None:
    pair = new_pair()
    async with tls_server(Certificates(pair)) as port, open_call(port, pair) as call:
        for body in (b"hello", bytes(8 * MIB)):
            await call.write(body)
            assert await call.read() == body


async def test_a_replaced_pair_is_for_new_handshakes_and_old_streams_live_on(
    tls_server: TlsServer,
) -> None:
    old, new = new_pair(), new_pair()
    certificates = Certificates(old)
    async with tls_server(certificates) as port, open_call(port, old) as call:
        await call.write(b"before")
        assert await call.read() == b"before"

        certificates.replace(new)

        for _ in range(2):
            assert (await shake_hands(port)).certificate == certificate_of(new)
        await call.write(b"after")
        assert await call.read() == b"after"


async def test_files_that_change_are_used_and_broken_ones_are_left_aside(
    tls_server: TlsServer, tmp_path: Path
) -> None:
    first, second = new_pair(), new_pair()
    write_pair(tmp_path, first)
    certificates = Certificates(first)
    with awaitable_logs() as logs:
        async with tls_server(certificates) as port:
            follower = asyncio.create_task(certificates.follow(tmp_path, quiet_seconds=0.02))

            broken = CertificatePair(chain=b"no certificate", key=b"no key")
            write_pair(tmp_path, broken)
            await until_logged(logs, "certificate not reloaded, the old one stays")
            assert (await shake_hands(port)).certificate == certificate_of(first)

            write_pair(tmp_path, second)
            await until_logged(logs, "certificate reloaded")
            assert (await shake_hands(port)).certificate == certificate_of(second)

            follower.cancel()
            with pytest.raises(asyncio.CancelledError):
                await follower
