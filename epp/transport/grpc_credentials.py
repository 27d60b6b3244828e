"""Certificates as grpcio takes them."""

from __future__ import annotations

import grpc

from epp.transport.certificates import CertificatePair, Certificates


def server_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Credentials of one server, which follow `certificates`."""
    following = _Following(certificates.pair)
    certificates.give_to(following.use)
    return grpc.dynamic_ssl_server_credentials(
        following.configuration,
        following.next,  # type: ignore[arg-type]  # the stubs know no None
    )


class _Following:
    def __init__(self, pair: CertificatePair) -> None:
        self.configuration = self._served = _configuration(pair)

    def use(self, pair: CertificatePair) -> None:
        """Serve another pair from the next handshake on."""
        self.configuration = _configuration(pair)

    def next(self) -> grpc.ServerCertificateConfiguration | None:
        """Called by grpcio's threads before each handshake; None leaves everything as it is."""
        configuration = self.configuration
        if configuration is self._served:
            return None
        self._served = configuration
        return configuration


def _configuration(pair: CertificatePair) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pair.key, pair.chain)])
