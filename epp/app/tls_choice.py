"""Which TLS the ext_proc port speaks, as far as its transport can be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from epp.framework.errors import ConfigError
from epp.transport.native.tls import ServerTls
from epp.transport.native.tls_names import openssl_ciphers, tls_version

if TYPE_CHECKING:
    from epp.transport.certificates import CertificatePair

TransportName = Literal["grpc", "native"]
TlsVersionName = Literal["", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]
VERSION_FLAG = "--tls-min-version"
CIPHERS_FLAG = "--tls-cipher-suites"
OLDEST: TlsVersionName = "VersionTLS12"
"""That both transports accept when nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsChoice:
    """What the flags say; empty leaves the choice to the transport."""

    transport: TransportName
    minimum: TlsVersionName = ""
    suites: tuple[str, ...] = ()

    def contradictions(self) -> Iterator[str]:
        """Yield what the transport can't honour, naming the flag."""
        if self.transport == "grpc":
            yield from self._beyond_grpc()
            return
        checks: tuple[Callable[[], object], ...] = (
            lambda: tls_version(self.minimum or OLDEST, VERSION_FLAG),
            lambda: openssl_ciphers(self.suites, CIPHERS_FLAG),
        )
        for check in checks:
            try:
                check()
            except ConfigError as error:
                yield str(error)

    def server_tls(self, pair: CertificatePair) -> ServerTls:
        """The native transport's TLS."""
        return ServerTls(
            pair,
            minimum=tls_version(self.minimum or OLDEST, VERSION_FLAG),
            ciphers=openssl_ciphers(self.suites, CIPHERS_FLAG),
        )

    def _beyond_grpc(self) -> Iterator[str]:
        """grpcio has a setting for neither."""
        if self.minimum not in ("", OLDEST):
            yield (
                f"{VERSION_FLAG}={self.minimum} can't be honoured with --transport=grpc, which"
                f" accepts {OLDEST} and later; --transport=native can raise that"
            )
        if self.suites:
            yield (
                f"{CIPHERS_FLAG}={','.join(self.suites)} can't be honoured with --transport=grpc,"
                " whose own choice is fixed; --transport=native can"
            )
