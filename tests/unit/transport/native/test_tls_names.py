from __future__ import annotations

import ssl

import pytest

from epp.framework.errors import ConfigError
from epp.transport.native.tls import ServerTls
from epp.transport.native.tls_names import openssl_ciphers, tls_version
from tests.fakes.certificates import new_pair


@pytest.mark.parametrize(
    ("name", "version"),
    [("VersionTLS12", ssl.TLSVersion.TLSv1_2), ("VersionTLS13", ssl.TLSVersion.TLSv1_3)],
)
def test_versions_have_the_names_of_go(name: str, version: ssl.TLSVersion) -> None:
    assert tls_version(name) is version


@pytest.mark.parametrize("name", ["VersionTLS10", "VersionTLS11", "TLS1.2", ""])
def test_other_versions_are_errors(name: str) -> None:
    with pytest.raises(ConfigError, match=r"--tls-min-version: .*VersionTLS12, VersionTLS13"):
        tls_version(name)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["TLS_AES_128_GCM_SHA256"],
        ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"],
    ],
    ids=["none", "of TLS 1.3 only", "two"],
)
def test_suites_are_those_that_openssl_serves(names: list[str]) -> None:
    spelled = openssl_ciphers(names)
    context = ServerTls(new_pair(), ciphers=spelled).context
    served = {suite["name"] for suite in context.get_ciphers()}
    of_tls_1_2 = {name for name in served if not name.startswith("TLS_")}
    assert of_tls_1_2 == set(spelled.split(":"))
    assert len(of_tls_1_2) == (2 if len(names) == 2 else 6)


def test_suites_that_http2_forbids_are_errors() -> None:
    with pytest.raises(ConfigError, match="--tls-cipher-suites: TLS_RSA_WITH_AES_128_CBC_SHA"):
        openssl_ciphers(["TLS_RSA_WITH_AES_128_CBC_SHA"])
