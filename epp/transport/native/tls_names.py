"""Names of TLS versions and cipher suites as Go, and so the flags, spell them."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from epp.framework.errors import ConfigError

_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
# The suites of TLS 1.2 that RFC 9113 appendix A does not forbid for HTTP/2.
_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
}
_ALWAYS_ON = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
"""Those of TLS 1.3, which Go does not let anybody choose either."""


def tls_version(name: str, flag: str = "--tls-min-version") -> ssl.TLSVersion:
    """The version of that name."""
    version = _VERSIONS.get(name)
    if version is None:
        allowed = ", ".join(_VERSIONS)
        raise ConfigError(f"{flag}: {name} can't be the oldest version of HTTP/2; use {allowed}")
    return version


def openssl_ciphers(names: Sequence[str], flag: str = "--tls-cipher-suites") -> str:
    """The same suites as OpenSSL spells them."""
    wanted = [name for name in names if name not in _ALWAYS_ON]
    for name in wanted:
        if name not in _SUITES:
            allowed = ", ".join([*_SUITES, *sorted(_ALWAYS_ON)])
            raise ConfigError(f"{flag}: {name} can't be used with HTTP/2; choose among {allowed}")
    return ":".join(_SUITES[name] for name in (wanted or _SUITES))
