from __future__ import annotations

import pytest

from epp.diagnosis.service_protocol import misleading


@pytest.mark.parametrize(
    ("app_protocol", "name", "is_tls"),
    [
        ("http2", "", True),
        ("HTTP2", "anything", True),
        ("kubernetes.io/h2c", "", False),
        ("grpc", "", True),
        (None, "grpc-ext-proc", True),
        (None, "grpc", False),
        ("", "http2-picker", False),
    ],
)
def test_a_port_that_says_http2_and_nothing_wrong_of_tls_is_fine(
    app_protocol: str | None, name: str, is_tls: bool
) -> None:
    assert misleading(app_protocol, name, is_tls=is_tls) is None


@pytest.mark.parametrize(
    ("app_protocol", "name", "is_tls", "said"),
    [
        ("kubernetes.io/h2c", "grpc", True, "GKE takes for plaintext; TLS is meant"),
        ("http2", "grpc", False, "GKE takes for TLS; plaintext is meant"),
        ("https", "grpc", True, "says https: Istio speaks no HTTP/2 to it"),
        (None, "tcp-ext-proc", True, "is called tcp-ext-proc and has no appProtocol"),
        (None, "", False, "has no name and has no appProtocol"),
        (None, "grpcish", False, "Istio takes it for plain TCP"),
    ],
)
def test_a_port_that_gateways_take_wrongly_is_told_with_the_right_value(
    app_protocol: str | None, name: str, is_tls: bool, said: str
) -> None:
    found = misleading(app_protocol, name, is_tls=is_tls)

    assert found is not None
    assert said in found.said
    assert found.advice == f"set appProtocol: {'http2' if is_tls else 'kubernetes.io/h2c'}"
