"""Certificate authorities, and what they issue."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from epp.transport.certificates import CertificatePair
from tests.fakes.certificates import untrusting


class Authority:
    """Issues certificates; one with an issuer is an intermediate CA."""

    def __init__(self, name: str, issuer: Authority | None = None) -> None:
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        signer = issuer or self
        extension = x509.BasicConstraints(ca=True, path_length=None)
        builder = _builder(self.name, signer.name, self.key).add_extension(extension, critical=True)
        self._certificate = builder.sign(signer.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return self._certificate.public_bytes(Encoding.PEM)

    def issue(self, *names: str, address: str | None = None) -> CertificatePair:
        """A certificate with these DNS names, and this IP address."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        if address is not None:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(address)))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, (*names, "nobody")[0])])
        builder = _builder(subject, self.name, key)
        if alternatives:
            extension = x509.SubjectAlternativeName(alternatives)
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return CertificatePair(
            chain=certificate.public_bytes(Encoding.PEM),
            key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )


def client_context(pair: CertificatePair | None, folder: Path) -> ssl.SSLContext:
    """TLS of a client that shows a certificate, if it has one, and verifies nothing."""
    context = untrusting(None)
    if pair is not None:
        file = folder / "client.pem"
        file.write_bytes(pair.chain + pair.key)
        context.load_cert_chain(file)
    return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
