"""Envoy's TLS towards the pickers, and how it knows that it is them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epp.support.addresses import canonical_ip

_TLS_CONTEXT = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerIdentity:
    """What a picker's certificate has to show."""

    ca_file: str
    """Where Envoy runs: PEM, with the CA that issued it."""
    name: str
    """A DNS name or IP address among its subject alternative names."""


def picker_tls(identity: PickerIdentity | None) -> dict[str, Any]:
    """The transport socket; without an identity any certificate will do, as gateways have it."""
    context: dict[str, Any] = {
        "@type": f"type.googleapis.com/{_TLS_CONTEXT}",
        "common_tls_context": {
            # As a client Envoy ends at TLS 1.2 unless told otherwise.
            "tls_params": {"tls_maximum_protocol_version": "TLSv1_3"},
            "alpn_protocols": ["h2"],
            "validation_context": {} if identity is None else _validation(identity),
        },
    }
    if identity is not None and canonical_ip(identity.name) is None:
        context["sni"] = identity.name  # RFC 6066 §3: no addresses
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}


def _validation(identity: PickerIdentity) -> dict[str, Any]:
    kind = "DNS" if canonical_ip(identity.name) is None else "IP_ADDRESS"
    return {
        "trusted_ca": {"filename": identity.ca_file},
        # Without it every certificate of the CA would do.
        "match_typed_subject_alt_names": [
            {"san_type": kind, "matcher": {"exact": identity.name}},
        ],
    }
