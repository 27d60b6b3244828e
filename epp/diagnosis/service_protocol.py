"""What a port of a Service says of its protocol, and what gateways make of that."""

from __future__ import annotations

from typing import NamedTuple

TLS, PLAINTEXT = "http2", "kubernetes.io/h2c"
_NAMED_HTTP2 = ("grpc", "http2")


class Misleading(NamedTuple):
    """Something a port says that gateways take wrongly."""

    said: str
    advice: str


def misleading(app_protocol: str | None, port_name: str, *, is_tls: bool) -> Misleading | None:
    """Judge a port that leads to a picker, which is HTTP/2 with or without TLS.

    Istio goes by `appProtocol`, else by the port's name, and asks for HTTP/2 alone by it; GKE
    takes `http2` for TLS and `kubernetes.io/h2c` for plaintext; the others don't look at it.
    """
    right, other = (TLS, PLAINTEXT) if is_tls else (PLAINTEXT, TLS)
    advice = f"set appProtocol: {right}"
    if not app_protocol:
        if port_name.partition("-")[0].lower() in _NAMED_HTTP2:
            return None
        named = f"is called {port_name}" if port_name else "has no name"
        return Misleading(f"{named} and has no appProtocol: Istio takes it for plain TCP", advice)
    said = app_protocol.lower()
    if said == other:
        meant, taken = ("TLS", "plaintext") if is_tls else ("plaintext", "TLS")
        return Misleading(
            f"says {app_protocol}, which GKE takes for {taken}; {meant} is meant", advice
        )
    if said in (right, *_NAMED_HTTP2):
        return None
    return Misleading(f"says {app_protocol}: Istio speaks no HTTP/2 to it", advice)
