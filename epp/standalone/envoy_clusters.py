"""The clusters of Envoy's bootstrap: the picked endpoint, the pickers, and the pool as a whole."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, NamedTuple

from epp.datastore.inference_pool import AppProtocol
from epp.gateway.health import EXT_PROC_SERVICE
from epp.standalone.envoy_tls import PickerIdentity, picker_tls
from epp.support.addresses import join_host_port

PICKED = "picked_endpoint"
FALLBACK = "pool_fallback"
EPP = "epp"
DESTINATION_HEADER = "x-gateway-destination-endpoint"

_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


class Address(NamedTuple):
    """An IP address or DNS name, without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)


def socket_address(address: Address) -> dict[str, Any]:
    """Envoy's `core.v3.Address`."""
    return {"socket_address": {"address": address.host, "port_value": address.port}}


def picked_cluster(app_protocol: AppProtocol) -> dict[str, Any]:
    """Connects to the address in the destination header, and to nothing else."""
    return {
        "name": PICKED,
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "5s",
        "original_dst_lb_config": {
            "use_http_header": True,
            "http_header_name": DESTINATION_HEADER,
        },
        "circuit_breakers": _circuit_breakers(),
        "typed_extension_protocol_options": _model_server_protocol(app_protocol),
    }


def fallback_cluster(endpoints: Sequence[Address], app_protocol: AppProtocol) -> dict[str, Any]:
    """Every endpoint of the pool, for requests nobody picked for."""
    return {
        "name": FALLBACK,
        **_discovery(FALLBACK, endpoints),
        "lb_policy": "LEAST_REQUEST",
        "connect_timeout": "2s",
        "circuit_breakers": _circuit_breakers(),
        "typed_extension_protocol_options": _model_server_protocol(app_protocol),
    }


def epp_cluster(
    pickers: Sequence[Address], *, tls: bool, identity: PickerIdentity | None
) -> dict[str, Any]:
    """The replicas of the picker; one that drains or died gets no stream."""
    health_check: dict[str, Any] = {
        "timeout": "1s",
        "interval": "2s",
        "no_traffic_interval": "2s",
        "unhealthy_interval": "1s",
        "unhealthy_threshold": 1,
        "healthy_threshold": 1,
        "grpc_health_check": {"service_name": EXT_PROC_SERVICE},
    }
    cluster: dict[str, Any] = {
        "name": EPP,
        **_discovery(EPP, pickers),
        "lb_policy": "LEAST_REQUEST",
        "connect_timeout": "1s",
        "circuit_breakers": _circuit_breakers(),
        "common_lb_config": {
            # No healthy picker: fail at once rather than try a dead one.
            "healthy_panic_threshold": {"value": 0},
            # Else what a health check finds within a second of another change waits for its end.
            "update_merge_window": "0s",
        },
        "health_checks": [health_check],
        "outlier_detection": _outlier_detection(),
        "typed_extension_protocol_options": {
            _HTTP_OPTIONS: {
                "@type": f"type.googleapis.com/{_HTTP_OPTIONS}",
                "explicit_http_config": {
                    "http2_protocol_options": {
                        # A cap on the client's side makes Envoy open more connections.
                        "max_concurrent_streams": 100,
                        # Nothing else ends a full-duplex stream to a picker that hangs.
                        "connection_keepalive": {"interval": "5s", "timeout": "5s"},
                    }
                },
            }
        },
    }
    if tls:
        # A health check negotiates for itself: without ALPN a gRPC server never turns healthy.
        health_check["tls_options"] = {"alpn_protocols": ["h2"]}
        cluster["transport_socket"] = picker_tls(identity)
    return cluster


def _discovery(cluster: str, addresses: Sequence[Address]) -> dict[str, Any]:
    hosts = [{"endpoint": {"address": socket_address(address)}} for address in addresses]
    assignment = {"cluster_name": cluster, "endpoints": [{"lb_endpoints": hosts}]}
    if all(_is_ip(address.host) for address in addresses):
        return {"type": "STATIC", "load_assignment": assignment}
    return {
        "type": "STRICT_DNS",
        # Servers listen on IPv4 unless told otherwise; Envoy's own choice is IPv6.
        "dns_lookup_family": "V4_PREFERRED",
        "load_assignment": assignment,
    }


def _model_server_protocol(app_protocol: AppProtocol) -> dict[str, Any]:
    if app_protocol is AppProtocol.H2C:
        options: dict[str, Any] = {
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    else:
        options = {
            # Explicit, so that HTTP/2 clients reach model servers that speak HTTP/1.1 only.
            "explicit_http_config": {"http_protocol_options": {"enable_trailers": True}},
            # Below the 5 s after which uvicorn closes an idle connection: a request sent
            # into such a close is lost.
            "common_http_protocol_options": {"idle_timeout": "4s"},
        }
    return {_HTTP_OPTIONS: {"@type": f"type.googleapis.com/{_HTTP_OPTIONS}", **options}}


def _circuit_breakers() -> dict[str, Any]:
    # How much a model server takes is the picker's decision.
    limits = {
        "max_connections": 40_000,
        "max_pending_requests": 40_000,
        "max_requests": 40_000,
        "max_retries": 1024,
    }
    return {"thresholds": [limits]}


def _outlier_detection() -> dict[str, Any]:
    # Only what Envoy itself sees of a broken connection ejects; statuses are answers.
    return {
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": 2,
        "enforcing_consecutive_local_origin_failure": 100,
        "consecutive_gateway_failure": 0,
        "enforcing_consecutive_gateway_failure": 0,
        "enforcing_consecutive_5xx": 0,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
        "interval": "1s",
        "base_ejection_time": "2s",
        "max_ejection_percent": 100,
    }


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
