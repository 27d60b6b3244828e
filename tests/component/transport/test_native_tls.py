from __future__ import annotations

import asyncio
import datetime
import ssl
from contextlib import AbstractAsyncContextManager, suppress

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
from tests.fakes.certificates import new_pair, shake_hands, untrusting
from tests.fakes.transport.listening import listening
from tests.fakes.transport.native_streams import native_server
from tests.fakes.transport.streams import TellingHandler


def tls_server(tls: ServerTls) -> AbstractAsyncContextManager[int]:
    return listening(native_server(TellingHandler, tls=tls))


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


@pytest.mark.parametrize("protocol", [None, "http/1.1"])
async def test_a_client_that_does_not_agree_on_h2_is_turned_away(protocol: str | None) -> None:
    async with tls_server(ServerTls(new_pair())) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=untrusting(protocol))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        with suppress(ConnectionResetError, ssl.SSLError):
            assert await reader.read() == b""
        writer.transport.abort()


async def test_a_client_without_the_minimum_version_is_turned_away() -> None:
    tls = ServerTls(new_pair(), minimum=ssl.TLSVersion.TLSv1_3)
    old = untrusting()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with tls_server(tls) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=old)
        assert (await shake_hands(port)).protocol == "h2"


async def test_the_ciphers_of_tls_1_2_are_those_asked_for() -> None:
    tls = ServerTls(new_pair(), ciphers="ECDHE-ECDSA-CHACHA20-POLY1305")
    client = untrusting()
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
