"""Certificates of the TLS listener: loaded or made, and exchanged while streams live on."""

from __future__ import annotations

import asyncio
import datetime
import socket
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from epp.framework.errors import ConfigError
from epp.support.file_watch import watch_file

CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"

UNUSABLE = (ValueError, UnsupportedAlgorithm, x509.InvalidVersion)
"""What is raised for certificates that can't be read."""

_VALIDITY = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(hours=1)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePair:
    """A certificate chain and the key of its first certificate, both PEM."""

    chain: bytes
    key: bytes = field(repr=False)


def self_signed_pair(now: datetime.datetime, hostname: str | None = None) -> CertificatePair:
    """A certificate for gateways that do not verify it; ECDSA, as handshakes should be cheap."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Inference Ext")])
    host = hostname or socket.gethostname()
    # The kernel takes any bytes for a name of the machine, a certificate does not.
    names = dict.fromkeys(("localhost", host) if host.isascii() else ("localhost",))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return CertificatePair(
        chain=certificate.public_bytes(Encoding.PEM),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def load_pair(directory: Path, flag: str = "--cert-path") -> CertificatePair:
    """Read `tls.crt` and `tls.key`; a ConfigError tells which of them is unusable, and why."""
    chain_path, key_path = directory / CERTIFICATE_FILE, directory / KEY_FILE
    chain, key = _read(chain_path, flag), _read(key_path, flag)
    try:
        public_key = x509.load_pem_x509_certificates(chain)[0].public_key()
    except UNUSABLE as error:
        raise ConfigError(f"{flag}: {chain_path} holds no PEM certificate: {error}") from error
    try:
        private_key = load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:  # TypeError: it has a password
        raise ConfigError(f"{flag}: {key_path} holds no PEM key without password") from error
    except UnsupportedAlgorithm as error:
        raise ConfigError(f"{flag}: {key_path} holds a key of an unsupported kind") from error
    if private_key.public_key() != public_key:
        raise ConfigError(f"{flag}: the key in {key_path} is not that of {chain_path}")
    return CertificatePair(chain=chain, key=key)


class Certificates:
    """The pair that new TLS handshakes get; streams of earlier ones live on under theirs."""

    def __init__(self, pair: CertificatePair) -> None:
        self._pair = pair
        self._users: list[Callable[[CertificatePair], None]] = []

    @property
    def pair(self) -> CertificatePair:
        """What new handshakes get now."""
        return self._pair

    def give_to(self, use: Callable[[CertificatePair], None]) -> None:
        """Call `use` with every other pair; it raises `ConfigError` for one it can't use."""
        self._users.append(use)

    def replace(self, pair: CertificatePair) -> None:
        """Use another pair from the next handshake on."""
        if pair != self._pair:
            for use in self._users:
                use(pair)
            self._pair = pair

    async def follow(self, directory: Path, *, quiet_seconds: float = 0.25) -> None:
        """Use what appears in the directory, for ever; a pair that can't be used is left aside."""
        files = directory / CERTIFICATE_FILE, directory / KEY_FILE
        async with aclosing(watch_file(*files, quiet_seconds=quiet_seconds)) as changes:
            async for _ in changes:
                try:
                    pair = await asyncio.to_thread(load_pair, directory)
                    is_new = pair != self._pair
                    self.replace(pair)
                except ConfigError as error:
                    log.warning("certificate not reloaded, the old one stays", error=str(error))
                    continue
                if is_new:
                    log.info("certificate reloaded", directory=str(directory))


def _read(path: Path, flag: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{flag}: can't read {path}: {error.strerror}") from error
