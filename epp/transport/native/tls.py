"""TLS of the native transport: HTTP/2 by ALPN, and certificates that are exchanged under way."""

from __future__ import annotations

import os
import ssl
import tempfile
from typing import TYPE_CHECKING

from epp.framework.errors import ConfigError
from epp.transport.guarded_tls import GuardedContext

if TYPE_CHECKING:
    from epp.transport.certificates import CertificatePair

# RFC 9113 §9.2.2: of TLS 1.2 only forward-secret AEAD ciphers; those of TLS 1.3 all are.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class ServerTls:
    """The context of one server's handshakes."""

    def __init__(
        self,
        pair: CertificatePair,
        *,
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        ciphers: str = _CIPHERS,
        version_flag: str = "--tls-min-version",
        ciphers_flag: str = "--tls-cipher-suites",
    ) -> None:
        if minimum < ssl.TLSVersion.TLSv1_2:
            raise ConfigError(f"{version_flag}: HTTP/2 needs TLS 1.2 or later")
        self.context = _new_context()
        self.context.minimum_version = minimum
        try:
            self.context.set_ciphers(ciphers)
        except ssl.SSLError as error:
            raise ConfigError(f"{ciphers_flag}: {ciphers} names no cipher of TLS 1.2") from error
        self.replace(pair)

    def replace(self, pair: CertificatePair) -> None:
        """Use another pair from the next handshake on; connections live on under theirs."""
        try:
            load_into(_new_context(), pair)  # what can't be used must not reach the live context
        except ssl.SSLError as error:
            raise ConfigError(f"the certificate can't be used for TLS: {error.reason}") from error
        load_into(self.context, pair)


def _new_context() -> ssl.SSLContext:
    context = GuardedContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION  # RFC 9113 §9.2.1
    context.set_alpn_protocols(["h2"])
    return context


def load_into(context: ssl.SSLContext, pair: CertificatePair) -> None:
    """Use the pair from the next handshake on.

    OpenSSL reads files only; this one has no name and, on Linux, is on no disk.
    """
    content = pair.chain.rstrip() + b"\n" + pair.key
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            _write_all(descriptor, content)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        context.load_cert_chain(file.name)


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
