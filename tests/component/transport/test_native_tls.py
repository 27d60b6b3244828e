from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from epp.framework.errors import ConfigError
from epp.transport.certificates import CertificatePair, Certificates
from epp.transport.native.tls import ServerTls
from tests.fakes.certificates import certificate_of, new_pair, shake_hands, write_pair
from tests.fakes.logs import awaitable_logs, until_logged
from tests.fakes.transport.listening import listening
from tests.fakes.transport.native_streams import PATH, native_server
from tests.fakes.transport.streams import TellingHandler

MIB = 1024 * 1024


def tls_server(tls: ServerTls) -> AbstractAsyncContextManager[int]:
    return listening(native_server(TellingHandler, tls=tls))


@asynccontextmanager
async def open_call(
    port: int, pair: CertificatePair
) -> AsyncIterator[grpc.aio.StreamStreamCall[bytes, bytes]]:
    credentials = grpc.ssl_channel_credentials(root_certificates=pair.chain)
    options = (("grpc.max_receive_message_length", -1),)
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials, options) as channel:
        yield channel.stream_stream(PATH)()


def client_context(protocol: str | None = "h2") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocol is not None:
        context.set_alpn_protocols([protocol])
    return context


def weak_pair() -> CertificatePair:
    """A pair that belongs together, and that OpenSSL does not take."""
    key = rsa.generate_private_key(65_537, 1024)
    name = x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 1, now, now + datetime.timedelta(1)
    )
    chain = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return CertificatePair(
        chain=chain, key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )


async def test_a_certificate_is_shown_and_h2_agreed_on() -> None:
    pair = new_pair()
    async with tls_server(ServerTls(pair)) as port:
        handshake = await shake_hands(port)
    assert handshake.protocol == "h2"
    assert handshake.certificate == certificate_of(pair)


async def test_large_messages_go_through_tls() -> None:
    pair = new_pair()
    async with tls_server(ServerTls(pair)) as port, open_call(port, pair) as call:
        for body in (b"hello", bytes(8 * MIB)):
            await call.write(body)
            assert await call.read() == body


@pytest.mark.parametrize("protocol", [None, "http/1.1"])
async def test_a_client_that_does_not_agree_on_h2_is_turned_away(protocol: str | None) -> None:
    async with tls_server(ServerTls(new_pair())) as port:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client_context(protocol)
        )
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        with suppress(ConnectionResetError, ssl.SSLError):
            assert await reader.read() == b""
        writer.transport.abort()


async def test_a_client_without_the_minimum_version_is_turned_away() -> None:
    tls = ServerTls(new_pair(), minimum=ssl.TLSVersion.TLSv1_3)
    old = client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with tls_server(tls) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=old)
        assert (await shake_hands(port)).protocol == "h2"


async def test_the_ciphers_of_tls_1_2_are_those_asked_for() -> None:
    tls = ServerTls(new_pair(), ciphers="ECDHE-ECDSA-CHACHA20-POLY1305")
    client = client_context()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    async with tls_server(tls) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        name, version, _ = writer.get_extra_info("cipher")
        writer.transport.abort()
    assert (name, version) == ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLSv1.2")


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        ({"minimum": ssl.TLSVersion.TLSv1_1}, "--tls-min-version"),
        ({"ciphers": "NO-SUCH-CIPHER"}, "--tls-cipher-suites"),
    ],
)
def test_settings_that_can_not_be_honoured_are_errors(
    arguments: dict[str, object], flag: str
) -> None:
    with pytest.raises(ConfigError, match=flag):
        ServerTls(new_pair(), **arguments)  # type: ignore[arg-type]  # one of each kind


def test_a_pair_that_openssl_refuses_is_an_error_and_the_old_one_stays() -> None:
    certificates = Certificates(new_pair())
    tls = ServerTls(certificates.pair)
    certificates.give_to(tls.replace)
    old = certificates.pair

    with pytest.raises(ConfigError, match="can't be used for TLS"):
        certificates.replace(weak_pair())

    assert certificates.pair == old


async def test_a_replaced_pair_is_for_new_handshakes_and_old_streams_live_on() -> None:
    old, new = new_pair(), new_pair()
    certificates = Certificates(old)
    tls = ServerTls(old)
    certificates.give_to(tls.replace)
    async with tls_server(tls) as port, open_call(port, old) as call:
        await call.write(b"before")
        assert await call.read() == b"before"

        certificates.replace(new)

        for _ in range(2):
            assert (await shake_hands(port)).certificate == certificate_of(new)
        await call.write(b"after")
        assert await call.read() == b"after"


async def test_files_that_change_are_used_and_broken_ones_are_left_aside(tmp_path: Path) -> None:
    first, second = new_pair(), new_pair()
    write_pair(tmp_path, first)
    certificates = Certificates(first)
    tls = ServerTls(first)
    certificates.give_to(tls.replace)
    with awaitable_logs() as logs:
        async with tls_server(tls) as port:
            follower = asyncio.create_task(certificates.follow(tmp_path, quiet_seconds=0.02))

            write_pair(tmp_path, weak_pair())
            await until_logged(logs, "certificate not reloaded, the old one stays")
            assert (await shake_hands(port)).certificate == certificate_of(first)

            write_pair(tmp_path, second)
            await until_logged(logs, "certificate reloaded")
            assert (await shake_hands(port)).certificate == certificate_of(second)

            follower.cancel()
            with pytest.raises(asyncio.CancelledError):
                await follower
