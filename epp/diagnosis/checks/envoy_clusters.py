"""Do requests go where the picker says, and do the gateway's clusters hold what they must?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from epp.datastore.inference_pool import FailureMode
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, listing, ok, warning
from epp.diagnosis.envoy_dump import EnvoyDump, Part, inner, items, seconds, type_of
from epp.diagnosis.port_look import Speaks
from epp.gateway.messages import DESTINATION_HEADER, DESTINATION_NAMESPACE

DESTINATION = "gateway-destination"
BREAKERS = "gateway-circuit-breakers"
TLS = "gateway-picker-tls"
CLIENT_HEADER = "gateway-client-header"
PICKER_CLUSTER = "gateway-picker-cluster"
ROUTES = "gateway-routes"

ENVOY_LIMIT = 1024
"""What a circuit breaker allows where nothing is said."""
_ROUTE_TIMEOUT = 15.0
_OF_STREAMS = ("max_pending_requests", "max_requests")
_OF_REQUESTS = ("max_connections", *_OF_STREAMS)
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def destination_clusters(dump: EnvoyDump) -> list[Part]:
    """The clusters that follow a pick."""
    return [each for each in dump.clusters.values() if _reads_header(each) or _reads_metadata(each)]


def reads_only_metadata(dump: EnvoyDump) -> bool:
    """Whether a pick gets to some cluster by metadata alone."""
    return any(_reads_metadata(c) and not _reads_header(c) for c in dump.clusters.values())


def judge_destination(case: Case, dump: EnvoyDump) -> Iterator[Finding]:
    """Whether any cluster goes by the pick, and keeps to it."""
    clusters = destination_clusters(dump)
    if not clusters:
        yield fault(
            DESTINATION,
            f"no cluster follows the pick{_near_miss(dump)}",
            "an ORIGINAL_DST cluster with original_dst_lb_config: {use_http_header: true,"
            f" http_header_name: {DESTINATION_HEADER}}}, or the override_host policy",
        )
        return
    loose = [each for each in clusters if _override_host(each) is not None]
    if loose and case.failure_mode is FailureMode.FAIL_CLOSE:
        text = f"{_names(loose)}: override_host sends requests without a pick to any pod"
        yield warning(DESTINATION, text, "only ORIGINAL_DST keeps what FailClose promises")
    else:
        yield ok(DESTINATION, f"clusters that follow the pick: {_names(clusters)}")
    if _is_open_without_fallback(case, clusters):
        text = "FailOpen with ORIGINAL_DST alone: a request without a pick is answered with 503"
        advice = "a second route for requests without the header: see docs/gateways.md"
        if not _has_second_route(dump, clusters):
            yield warning(DESTINATION, text, advice)
    if any(map(_reads_header, clusters)) and not _strips_header(dump):
        yield warning(
            CLIENT_HEADER,
            f"a client's own {DESTINATION_HEADER} is followed when no picker answers",
            f"early_header_mutation_extensions with {{remove: {DESTINATION_HEADER}}}",
        )


def judge_breakers(case: Case, pickers: Sequence[Part], dump: EnvoyDump) -> Iterator[Finding]:
    """Whether as many requests are let through as the picker takes."""
    needed = case.options.max_streams
    is_fine = True
    for cluster in [*pickers, *destination_clusters(dump)]:
        # Streams to pickers share few connections.
        names = _OF_STREAMS if cluster in pickers else _OF_REQUESTS
        limits = _limits(cluster, names)
        low = {name: limit for name, limit in limits.items() if limit < needed}
        if not low:
            continue
        is_fine = False
        text = f"{cluster['name']}: {listing(f'{name} {limit}' for name, limit in low.items())}"
        # A stream to the picker is open as long as the response lasts.
        is_default = cluster in pickers and min(low.values()) <= ENVOY_LIMIT
        judge = fault if is_default else warning
        yield judge(
            BREAKERS,
            f"{text}: more requests at a time are answered with 5xx by the gateway",
            f"circuit_breakers: raise them to --max-streams ({needed}) or above",
        )
    if is_fine:
        yield ok(BREAKERS, "no limit is below --max-streams")


def judge_picker_cluster(case: Case, cluster: Part) -> Iterator[Finding]:
    """TLS, HTTP/2 and what finds a picker that is gone."""
    name = cluster["name"]
    is_tls = cluster.get("transport_socket") is not None
    speaks = case.port.speaks if case.port is not None else None
    if speaks in (Speaks.TLS, Speaks.PLAINTEXT) and is_tls is not (speaks is Speaks.TLS):
        has = "TLS" if is_tls else "plaintext"
        text = f"{name} speaks {has} to the picker, which speaks {speaks}"
        yield fault(TLS, text, "transport_socket there, or --secure-serving of the picker")
    elif is_tls and _checks_without_alpn(cluster):
        text = f"{name}: a health check over TLS without ALPN never finds the picker healthy"
        yield fault(TLS, text, "health_checks: [tls_options: {alpn_protocols: [h2]}]")
    else:
        yield ok(TLS, f"{name}: {'TLS' if is_tls else 'plaintext'}")
    if not _speaks_http2(cluster):
        text = f"{name} is not set to HTTP/2, which gRPC needs"
        yield fault(PICKER_CLUSTER, text, "explicit_http_config: {http2_protocol_options: {}}")
    elif not _keepalive(cluster):
        text = f"{name}: requests that a frozen picker holds hang without end"
        advice = "http2_protocol_options: {connection_keepalive: {interval: 5s, timeout: 5s}}"
        yield warning(PICKER_CLUSTER, text, advice)
    yield from _judge_health_checks(cluster)


def _judge_health_checks(cluster: Part) -> Iterator[Finding]:
    name = cluster["name"]
    if not items(cluster, "health_checks"):
        text = f"{name}: no health check: a picker that drains gets requests to the end"
        yield warning(PICKER_CLUSTER, text, "health_checks with grpc_health_check")
    elif _panics(cluster):
        text = f"{name}: pickers that are not healthy are tried all the same"
        yield warning(PICKER_CLUSTER, text, "healthy_panic_threshold: {value: 0}")


def judge_routes(dump: EnvoyDump, *, is_full_duplex: bool) -> Iterator[Finding]:
    """What routes to picked endpoints do to long answers and to bodies."""
    names = {cluster["name"] for cluster in destination_clusters(dump)}
    routes = [each["route"] for each in dump.routes if str(each["route"].get("cluster")) in names]
    short = [each for each in routes if 0 < seconds(each.get("timeout"), _ROUTE_TIMEOUT) <= 60]
    if short:
        least = min(seconds(each.get("timeout"), _ROUTE_TIMEOUT) for each in short)
        text = f"answers are cut after {least:g} s, which generation may take"
        yield warning(ROUTES, text, "timeout: 0s on the routes, and idle_timeout instead")
    if is_full_duplex and any(each.get("retry_policy") for each in routes):
        text = "retry_policy with full duplex: bodies with trailers may be sent twice"
        yield warning(ROUTES, text, "no retries on these routes")


def _reads_header(cluster: Part) -> bool:
    config = cluster.get("original_dst_lb_config")
    if inner(config, "use_http_header") is True:
        return str(inner(config, "http_header_name")) == DESTINATION_HEADER
    sources = items(_override_host(cluster), "override_host_sources")
    return any(inner(source, "header") == DESTINATION_HEADER for source in sources)


def _reads_metadata(cluster: Part) -> bool:
    keys = [inner(cluster, "original_dst_lb_config", "metadata_key")]
    sources = items(_override_host(cluster), "override_host_sources")
    keys += [inner(source, "metadata") for source in sources]
    return any(_is_destination(key) for key in keys)


def _is_destination(key: Any) -> bool:
    path = [inner(part, "key") for part in items(key, "path")]
    return inner(key, "key") == DESTINATION_NAMESPACE and path == [DESTINATION_HEADER]


def _override_host(cluster: Part) -> Part | None:
    for policy in items(cluster, "load_balancing_policy", "policies"):
        config = inner(policy, "typed_extension_config", "typed_config")
        if isinstance(config, Mapping) and type_of(config).endswith(
            "override_host.v3.OverrideHost"
        ):
            return config
    return None


def _near_miss(dump: EnvoyDump) -> str:
    named = [
        f"{each['name']} goes by {inner(each, 'original_dst_lb_config', 'http_header_name')}"
        for each in dump.clusters.values()
        if inner(each, "original_dst_lb_config", "use_http_header") is True
    ]
    plain = [
        f"{each['name']} is ORIGINAL_DST, but goes by no header"
        for each in dump.clusters.values()
        if each.get("type") == "ORIGINAL_DST" and not inner(each, "original_dst_lb_config")
    ]
    return f": {listing([*named, *plain])}" if named or plain else ""


def _is_open_without_fallback(case: Case, clusters: Sequence[Part]) -> bool:
    is_open = case.failure_mode is FailureMode.FAIL_OPEN
    return is_open and not any(_override_host(each) is not None for each in clusters)


def _has_second_route(dump: EnvoyDump, clusters: Sequence[Part]) -> bool:
    names = {cluster["name"] for cluster in clusters}
    return any(each["route"].get("cluster") not in names for each in dump.routes)


def _strips_header(dump: EnvoyDump) -> bool:
    return any(
        str(inner(mutation, "remove")).lower() == DESTINATION_HEADER
        for manager in dump.managers
        for extension in items(manager, "early_header_mutation_extensions")
        for mutation in items(extension, "typed_config", "mutations")
    )


def _limits(cluster: Part, names: Sequence[str]) -> dict[str, int]:
    default: Part = next(
        (
            each
            for each in items(cluster, "circuit_breakers", "thresholds")
            if inner(each, "priority") in (None, "DEFAULT")
        ),
        {},
    )
    return {name: _number(inner(default, name)) for name in names}


def _number(value: object) -> int:
    return value if isinstance(value, int) else ENVOY_LIMIT


def _checks_without_alpn(cluster: Part) -> bool:
    checks = [each for each in items(cluster, "health_checks") if inner(each, "grpc_health_check")]
    return any("h2" not in items(each, "tls_options", "alpn_protocols") for each in checks)


def _speaks_http2(cluster: Part) -> bool:
    options = inner(cluster, "typed_extension_protocol_options", _HTTP_OPTIONS)
    return (
        inner(options, "explicit_http_config", "http2_protocol_options") is not None
        or inner(options, "use_downstream_protocol_config") is not None
        or cluster.get("http2_protocol_options") is not None
    )


def _keepalive(cluster: Part) -> object:
    options = inner(cluster, "typed_extension_protocol_options", _HTTP_OPTIONS)
    return inner(
        options, "explicit_http_config", "http2_protocol_options", "connection_keepalive"
    ) or inner(cluster, "http2_protocol_options", "connection_keepalive")


def _panics(cluster: Part) -> bool:
    """Below half of all healthy, unless said otherwise; a threshold of 0 is written as nothing."""
    threshold = inner(cluster, "common_lb_config", "healthy_panic_threshold")
    return threshold is None or bool(inner(threshold, "value"))


def _names(clusters: Sequence[Part]) -> str:
    return listing(str(each["name"]) for each in clusters)
