"""Certificate directories as Kubernetes or an operator writes them, and a look at a TLS port."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from epp.transport.certificates import CertificatePair, self_signed_pair


def new_pair() -> CertificatePair:
    return self_signed_pair(datetime.datetime.now(datetime.UTC))


def write_pair(directory: Path, pair: CertificatePair) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "tls.crt").write_bytes(pair.chain)
    (directory / "tls.key").write_bytes(pair.key)


def certificate_of(pair: CertificatePair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.chain)


def untrusting(protocol: str | None = "h2") -> ssl.SSLContext:
    """TLS of a client that verifies nothing, as gateways do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocol is not None:
        context.set_alpn_protocols([protocol])
    return context


@dataclass(frozen=True)
class Handshake:
    """What a gateway that verifies nothing learns from a handshake."""

    protocol: str | None
    certificate: x509.Certificate


async def shake_hands(port: int) -> Handshake:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=untrusting())
    tls = writer.get_extra_info("ssl_object")
    try:
        return Handshake(
            protocol=tls.selected_alpn_protocol(),
            certificate=x509.load_der_x509_certificate(tls.getpeercert(binary_form=True)),
        )
    finally:
        writer.transport.abort()
