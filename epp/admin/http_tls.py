"""TLS of an HTTP port: its certificate, who may connect, and both again when the files change."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import structlog
from cryptography import x509

from epp.framework.errors import ConfigError
from epp.support.file_watch import watch_file
from epp.support.tasks import TaskOwner, keep_running
from epp.transport.certificates import (
    CERTIFICATE_FILE,
    KEY_FILE,
    UNUSABLE,
    CertificatePair,
    load_pair,
)
from epp.transport.guarded_tls import GuardedContext
from epp.transport.native.tls import load_into

CERT_DIR_FLAG = "--metrics-cert-dir"
CLIENT_CA_FLAG = "--metrics-client-ca-file"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTls:
    """Where a port's certificate is, and the CAs of those who may connect (None: anybody)."""

    cert_dir: Path
    """With `tls.crt` and `tls.key`."""
    client_ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class _Material:
    """What the files held."""

    pair: CertificatePair
    client_ca: str


class HttpTlsContext:
    """The context of the next handshake; files that can't be used leave the last one there."""

    def __init__(self, tls: HttpTls, material: _Material) -> None:
        self._tls = tls
        self._material = material
        self._tasks = TaskOwner()
        self.current = _context(material)

    @classmethod
    async def load(cls, tls: HttpTls) -> HttpTlsContext:
        """Read the files, and follow them; raises `ConfigError` naming flag and file."""
        loaded = cls(tls, await asyncio.to_thread(_read, tls))
        loaded._follow(tls.cert_dir / CERTIFICATE_FILE, tls.cert_dir / KEY_FILE)
        if tls.client_ca_file is not None:
            loaded._follow(tls.client_ca_file)
        return loaded

    async def aclose(self) -> None:
        """Follow the files no longer."""
        await self._tasks.aclose()

    def _follow(self, *files: Path) -> None:
        async def follow() -> None:
            async with aclosing(watch_file(*files)) as changes:
                async for _ in changes:
                    await self._reload()

        self._tasks.spawn(keep_running("metrics certificate", follow), "metrics certificate")

    async def _reload(self) -> None:
        try:
            material = await asyncio.to_thread(_read, self._tls)
            if material == self._material:
                return
            # Another context, as a CA can't be taken out of one, and old sessions end with it.
            self.current = _context(material)
        except ConfigError as error:
            log.warning("certificate not reloaded, the old one stays", error=str(error))
            return
        self._material = material
        log.info("certificate reloaded", directory=str(self._tls.cert_dir))


def _read(tls: HttpTls) -> _Material:
    pair = load_pair(tls.cert_dir, CERT_DIR_FLAG)
    return _Material(pair, _read_client_ca(tls.client_ca_file) if tls.client_ca_file else "")


def _read_client_ca(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{CLIENT_CA_FLAG}: can't read {path}: {error.strerror}") from error
    try:
        x509.load_pem_x509_certificates(content)
        return content.decode("ascii")
    except UNUSABLE as error:
        raise ConfigError(f"{CLIENT_CA_FLAG}: {path} holds no PEM certificate: {error}") from error


def _context(material: _Material) -> ssl.SSLContext:
    context = GuardedContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= (
        ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    )  # costs peers nothing, us CPU
    try:
        load_into(context, material.pair)
    except ssl.SSLError as error:
        raise ConfigError(f"{CERT_DIR_FLAG}: the pair can't be used: {error.reason}") from error
    if material.client_ca:
        _ask_for_certificates(context, material.client_ca)
    return context


def _ask_for_certificates(context: ssl.SSLContext, client_ca: str) -> None:
    try:
        context.load_verify_locations(cadata=client_ca)
    except ssl.SSLError as error:
        raise ConfigError(f"{CLIENT_CA_FLAG}: can't be used: {error.reason}") from error
    context.verify_mode = ssl.CERT_REQUIRED
    # As in Go, an intermediate CA in the file is trusted without its root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
