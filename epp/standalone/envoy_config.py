"""Envoy's bootstrap for one pool behind Endpoint Pickers, in the pool's failure mode.

FailClose: request bodies stream to the picker and back, and the only route leads to the endpoint
it names, so nothing reaches a model server that was not picked. FailOpen: Envoy keeps the body, and
when the picker fails or names no endpoint a second route spreads requests over the whole pool.
FailOpen with streamed bodies would be a promise Envoy can't keep: it opens only until the first
byte of a body has gone to the picker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epp.datastore.inference_pool import AppProtocol
from epp.gateway.messages import SUBSET_KEY
from epp.gateway.request_headers import HOST_HEADERS
from epp.request_control.explanation import SCORES_KEY, SCORES_NAMESPACE
from epp.request_control.response_headers import SERVED_ENDPOINT_HEADER
from epp.standalone.envoy_clusters import (
    DESTINATION_HEADER,
    FALLBACK,
    PICKED,
    Address,
    epp_cluster,
    fallback_cluster,
    picked_cluster,
    socket_address,
)
from epp.standalone.envoy_ext_proc import TYPE_URL, duration, ext_proc_filter
from epp.standalone.envoy_tls import PickerIdentity

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoySettings:
    """What a bootstrap depends on."""

    listener: Address
    pickers: tuple[Address, ...]
    """The ext_proc ports of all replicas; a headless Service's name stands for several."""
    fail_open: bool
    endpoints: tuple[Address, ...] = ()
    """Where requests go when FailOpen opens; names are resolved by DNS."""
    app_protocol: AppProtocol = AppProtocol.HTTP
    admin: Address | None = None
    access_log: str | None = None
    """A file of JSON lines."""
    max_request_body_bytes: int = 64 * MEBIBYTE
    """Larger bodies are answered with 413; by Envoy in FailOpen, else by the picker."""
    response_bodies: bool = True
    """Whether the picker sees response bodies; without them it learns no usage."""
    epp_tls: bool = False
    """TLS towards the pickers."""
    epp_identity: PickerIdentity | None = None
    """What their certificates have to show; None: nothing."""
    pick_timeout_seconds: float = 30.0
    """FailOpen: how long a picker may take, queueing included, before Envoy goes on without."""
    idle_timeout_seconds: float = 600.0
    """How long nothing may happen to a request, be it queued by the picker or generating."""


def envoy_bootstrap(settings: EnvoySettings) -> dict[str, Any]:
    """The document for `envoy --config-yaml`; JSON is YAML."""
    clusters = [
        picked_cluster(settings.app_protocol),
        epp_cluster(settings.pickers, tls=settings.epp_tls, identity=settings.epp_identity),
    ]
    if settings.fail_open:
        clusters.append(fallback_cluster(settings.endpoints, settings.app_protocol))
    bootstrap: dict[str, Any] = {
        "static_resources": {"listeners": [_listener(settings)], "clusters": clusters}
    }
    if settings.admin is not None:
        bootstrap["admin"] = {"address": socket_address(settings.admin)}
    return bootstrap


def _listener(settings: EnvoySettings) -> dict[str, Any]:
    return {
        "name": "inference",
        "address": socket_address(settings.listener),
        # A message with a piece of a body is about as large as this.
        "per_connection_buffer_limit_bytes": MEBIBYTE,
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": _connection_manager(settings),
                    }
                ]
            }
        ],
    }


def _connection_manager(settings: EnvoySettings) -> dict[str, Any]:
    manager: dict[str, Any] = {
        "@type": TYPE_URL + "filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "inference",
        "codec_type": "AUTO",
        "use_remote_address": True,
        "normalize_path": True,
        "merge_slashes": True,
        "server_header_transformation": "PASS_THROUGH",
        # What `epp explain` and the logs call the request is what the client can see, or chose.
        "preserve_external_request_id": True,
        "always_set_request_id_in_response": True,
        "request_id_extension": {
            "typed_config": {
                "@type": TYPE_URL + "request_id.uuid.v3.UuidRequestIdConfig",
                "pack_trace_reason": False,  # Envoy writes it into a digit of a client's UUID
            }
        },
        "stream_idle_timeout": duration(settings.idle_timeout_seconds),
        # Else a head that trickles in may take as long as a request that is being generated.
        "request_headers_timeout": "30s",
        "common_http_protocol_options": {"idle_timeout": "3600s"},
        "http_protocol_options": {"enable_trailers": True},
        "http2_protocol_options": {"max_concurrent_streams": 1000},
        "early_header_mutation_extensions": [_strip_hosts()],
        "route_config": {"name": "inference", "virtual_hosts": [_virtual_host(settings)]},
        "http_filters": _filters(settings),
    }
    if settings.app_protocol is AppProtocol.HTTP:
        manager["upgrade_configs"] = [
            # Frames have nothing that is picked by, and sessions outlive a picker that sees none.
            {"upgrade_type": "websocket", "filters": _filters(settings, has_bodies=False)}
        ]
    if settings.access_log is not None:
        manager["access_log"] = [_access_log(settings.access_log)]
    return manager


def _filters(settings: EnvoySettings, *, has_bodies: bool = True) -> list[dict[str, Any]]:
    ext_proc = ext_proc_filter(
        fail_open=settings.fail_open,
        request_bodies=has_bodies,
        response_bodies=has_bodies and settings.response_bodies,
        pick_timeout_seconds=settings.pick_timeout_seconds,
    )
    return [ext_proc, _router()]


def _virtual_host(settings: EnvoySettings) -> dict[str, Any]:
    host: dict[str, Any] = {
        "name": "inference",
        "domains": ["*"],
        "routes": _routes(settings),
    }
    if settings.fail_open:
        # The connection's limit would do for HTTP/1.1; HTTP/2 streams stay at 16 MiB with it.
        host["request_body_buffer_limit"] = settings.max_request_body_bytes
    return host


def _strip_hosts() -> dict[str, Any]:
    # Without a picker nobody else removes them. A route's request_headers_to_remove runs too late:
    # a client could name its destination.
    stripped = (DESTINATION_HEADER, SERVED_ENDPOINT_HEADER, SUBSET_KEY, *HOST_HEADERS)
    return {
        "name": "strip-hosts",
        "typed_config": {
            "@type": TYPE_URL + "http.early_header_mutation.header_mutation.v3.HeaderMutation",
            "mutations": [{"remove": name} for name in stripped],
        },
    }


def _routes(settings: EnvoySettings) -> list[dict[str, Any]]:
    times = {
        "timeout": "0s",  # generation may take minutes
        "idle_timeout": duration(settings.idle_timeout_seconds),
    }
    picked, fallback = ({"cluster": cluster, **times} for cluster in (PICKED, FALLBACK))
    if not settings.fail_open:
        # No retries: after request trailers, Envoy would send a streamed body it keeps for a
        # retry a second time.
        return [{"match": {"prefix": "/"}, "route": picked}]
    is_picked = {"name": DESTINATION_HEADER, "present_match": True}
    return [
        {"match": {"prefix": "/", "headers": [is_picked]}, "route": picked | _retries(1)},
        {"match": {"prefix": "/"}, "route": fallback | _retries(2)},
    ]


def _retries(number: int) -> dict[str, Any]:
    return {
        "retry_policy": {
            "retry_on": "connect-failure,refused-stream,reset-before-request",
            "num_retries": number,
        }
    }


def _router() -> dict[str, Any]:
    return {
        "name": "envoy.filters.http.router",
        "typed_config": {
            "@type": TYPE_URL + "filters.http.router.v3.Router",
            "suppress_envoy_headers": True,
        },
    }


def _access_log(path: str) -> dict[str, Any]:
    return {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": TYPE_URL + "access_loggers.file.v3.FileAccessLog",
            "path": path,
            "log_format": {
                "json_format": {
                    "time": "%START_TIME%",
                    "method": "%REQ(:METHOD)%",
                    "path": "%REQ(:PATH)%",
                    "request_id": "%REQ(X-REQUEST-ID)%",
                    "code": "%RESPONSE_CODE%",
                    "flags": "%RESPONSE_FLAGS%",
                    "details": "%RESPONSE_CODE_DETAILS%",
                    "upstream": "%UPSTREAM_HOST%",
                    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
                    "duration_ms": "%DURATION%",
                    "rx": "%BYTES_RECEIVED%",
                    "tx": "%BYTES_SENT%",
                    "scores": f"%DYNAMIC_METADATA({SCORES_NAMESPACE}:{SCORES_KEY})%",
                    "ext_proc": "%FILTER_STATE(envoy.filters.http.ext_proc:PLAIN)%",
                }
            },
        },
    }
