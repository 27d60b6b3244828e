"""Everything `epp serve` can be told: each option declared once, with its flag."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from epp.app.flag_kinds import (
    LOOPBACK,
    Bytes,
    Count,
    ErrorFormatName,
    FailureModeName,
    IpAddress,
    LabelSelector,
    MessageLimit,
    Namespace,
    ObjectName,
    OwnAddress,
    PoolGroup,
    Port,
    Ports,
    PositiveSeconds,
    Seconds,
    WholeNumber,
    Words,
    ZapLevel,
)
from epp.app.flags import Flag, Section
from epp.app.tls_choice import TlsVersionName, TransportName
from epp.datastore.inference_pool import GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeFlags:
    """What can be said, with the defaults of `epp serve`."""

    pool_name: Annotated[ObjectName, Flag(Section.POOL, "InferencePool in the cluster")] = ""
    pool_namespace: Annotated[
        Namespace,
        Flag(
            Section.POOL,
            "namespace of the pool, or of the selected pods; empty: default",
            environment="NAMESPACE",
        ),
    ] = ""
    pool_group: Annotated[
        PoolGroup, Flag(Section.POOL, "API group of the pool; there is only one")
    ] = GROUP
    endpoint_selector: Annotated[
        LabelSelector,
        Flag(
            Section.POOL,
            "instead of a pool: label selector of pods, as kubectl takes it; the pool's name is"
            " then that of this pod's Deployment",
        ),
    ] = ""
    endpoint_target_ports: Annotated[
        Ports, Flag(Section.POOL, "ports of --endpoint-selector's pods, 1 to 8")
    ] = ()
    pod_name: Annotated[
        str,
        Flag(Section.POOL, "name of this pod, for --endpoint-selector", environment="POD_NAME"),
    ] = ""
    config_file: Annotated[
        Path | None,
        Flag(Section.PICKING, "EndpointPickerConfig; read again when it changes"),
    ] = None
    config_text: Annotated[
        str,
        Flag(Section.PICKING, "EndpointPickerConfig as text; neither of the two: the default one"),
    ] = ""
    allow_experimental_plugins: Annotated[
        bool, Flag(Section.PICKING, "allow plugins whose stability is Alpha")
    ] = False
    refresh_metrics_interval: Annotated[
        PositiveSeconds,
        Flag(
            Section.PICKING,
            "pause between scrapes of an endpoint while there is traffic; at least 50ms",
        ),
    ] = 0.05
    idle_metrics_interval: Annotated[
        PositiveSeconds,
        Flag(Section.PICKING, "the same pause when there has been no request for a while"),
    ] = 1.0
    refresh_prometheus_metrics_interval: Annotated[
        PositiveSeconds, Flag(Section.PICKING, "pause between updates of the pool's gauges")
    ] = 5.0
    metrics_staleness_threshold: Annotated[
        PositiveSeconds,
        Flag(Section.PICKING, "age from which an endpoint's metrics leave the pool's gauges"),
    ] = 2.0

    outlier_consecutive_errors: Annotated[
        WholeNumber,
        Flag(
            Section.PICKING,
            "5xx answers in a row after which an endpoint gets no requests for a while; 0: never",
        ),
    ] = 5

    pool_file: Annotated[
        Path | None,
        Flag(Section.POOL, "YAML file with the InferencePool and its endpoints; read on change"),
    ] = None
    failure_mode: Annotated[
        FailureModeName | None,
        Flag(Section.POOL, "what a failure of the EPP means; default: the pool's failureMode"),
    ] = None
    disable_endpoint_subset_filter: Annotated[
        bool, Flag(Section.POOL, "choose among all endpoints, whatever subset the gateway names")
    ] = False

    kubeconfig: Annotated[
        Path | None,
        Flag(
            Section.KUBERNETES,
            "how to reach the cluster; empty: as a pod does, else as kubectl does",
        ),
    ] = None
    kube_context: Annotated[
        str, Flag(Section.KUBERNETES, "context of the kubeconfig; empty: its current one")
    ] = ""
    ha_enable_leader_election: Annotated[
        bool,
        Flag(Section.KUBERNETES, "of several replicas only the one that holds a Lease is ready"),
    ] = False
    emit_events: Annotated[
        bool,
        Flag(
            Section.KUBERNETES,
            "write Kubernetes Events about the pool: few, and none if the rights are missing",
        ),
    ] = False

    bind_address: Annotated[
        IpAddress,
        Flag(Section.LISTENERS, "address of all ports but the admin port; empty: all interfaces"),
    ] = ""
    grpc_port: Annotated[Port, Flag(Section.LISTENERS, "ext_proc; 0: any free port")] = 9002
    grpc_health_port: Annotated[
        Port, Flag(Section.LISTENERS, "gRPC health service, plaintext; 0: any free port")
    ] = 9003
    metrics_port: Annotated[
        Port, Flag(Section.LISTENERS, "/metrics and /debug/plugins/state; 0: any free port")
    ] = 9090
    metrics_endpoint_auth: Annotated[
        bool | None,
        Flag(
            Section.LISTENERS,
            "who reads the metrics port needs a token that the API server knows and that may get"
            " the path; default: true with a pool or pods of a cluster, false without",
        ),
    ] = None
    admin_port: Annotated[Port, Flag(Section.LISTENERS, "admin pages; 0: any free port")] = 9091
    admin_address: Annotated[
        OwnAddress, Flag(Section.LISTENERS, "address of the admin port; empty: 127.0.0.1")
    ] = LOOPBACK
    transport: Annotated[
        TransportName,
        Flag(
            Section.LISTENERS,
            "of the ext_proc and health ports: native is a server of our own, grpc is grpcio,"
            " which costs three times the CPU",
        ),
    ] = "native"
    health_checking: Annotated[
        bool,
        Flag(Section.LISTENERS, "gRPC health on the ext_proc port as well, following readiness"),
    ] = True
    grpc_max_recv_msg_size: Annotated[
        MessageLimit,
        Flag(Section.LISTENERS, "largest gRPC message received; empty or 0: no limit"),
    ] = None
    grpc_max_send_msg_size: Annotated[
        MessageLimit, Flag(Section.LISTENERS, "largest gRPC message sent; empty or 0: no limit")
    ] = None

    secure_serving: Annotated[bool, Flag(Section.TLS, "TLS on the ext_proc port")] = True
    cert_path: Annotated[
        Path | None,
        Flag(Section.TLS, "directory with tls.crt and tls.key; empty: a self-signed certificate"),
    ] = None
    metrics_cert_dir: Annotated[
        Path | None,
        Flag(
            Section.TLS,
            "directory with tls.crt and tls.key of the metrics port, read on change; empty: http",
        ),
    ] = None
    metrics_client_ca_file: Annotated[
        Path | None,
        Flag(
            Section.TLS,
            "PEM file with the CAs of those who may connect to the metrics port, read on change;"
            " takes --metrics-cert-dir; empty: no certificate is asked for",
        ),
    ] = None
    enable_cert_reload: Annotated[
        bool, Flag(Section.TLS, "load the certificate again when the directory changes")
    ] = False
    tls_min_version: Annotated[
        TlsVersionName,
        Flag(
            Section.TLS,
            "oldest version accepted; empty: VersionTLS12, which is all --transport=grpc can do",
        ),
    ] = ""
    tls_cipher_suites: Annotated[
        Words,
        Flag(
            Section.TLS,
            "those of TLS 1.2, with --transport=native; empty: all that HTTP/2 allows",
        ),
    ] = ()

    decision_timeout: Annotated[
        PositiveSeconds, Flag(Section.LIMITS, "from the last byte of a request to its answer")
    ] = 5.0
    body_idle_timeout: Annotated[
        PositiveSeconds, Flag(Section.LIMITS, "longest pause within a request body, then 408")
    ] = 60.0
    max_request_body_bytes: Annotated[
        Bytes, Flag(Section.LIMITS, "largest request body, then 413")
    ] = 64 * 2**20
    max_buffered_bytes: Annotated[
        Bytes, Flag(Section.LIMITS, "all buffered bodies together, then the EPP is overloaded")
    ] = 2**30
    max_streams: Annotated[
        Count,
        Flag(Section.LIMITS, "open streams, then the EPP is overloaded; the hard limit is 1.5x"),
    ] = 20_000
    max_loop_lag: Annotated[
        PositiveSeconds, Flag(Section.LIMITS, "delay of the event loop, then the EPP is overloaded")
    ] = 1.0

    drain_timeout: Annotated[
        Seconds, Flag(Section.SHUTDOWN, "keep serving after SIGTERM, not ready; 0: stop at once")
    ] = 30.0
    shutdown_grace: Annotated[
        Seconds, Flag(Section.SHUTDOWN, "then wait for open streams at most this long")
    ] = 30.0

    error_format: Annotated[
        ErrorFormatName, Flag(Section.ANSWERS, "text, or json as OpenAI writes errors")
    ] = "text"
    skip_response_processing: Annotated[
        bool,
        Flag(
            Section.ANSWERS,
            "end each stream after the pick; responses, and what is in flight, stay unknown",
        ),
    ] = False
    served_endpoint_header: Annotated[
        bool,
        Flag(
            Section.ANSWERS, "response header x-gateway-destination-endpoint-served for the client"
        ),
    ] = False
    emit_endpoint_scores: Annotated[
        bool,
        Flag(
            Section.ANSWERS,
            "dynamic metadata x-gateway-destination-endpoint-scores: every candidate's total",
        ),
    ] = False
    decision_header: Annotated[
        bool,
        Flag(Section.ANSWERS, "response header x-epp-decision: which scorer gave whom what"),
    ] = False
    debug_response_header: Annotated[
        bool, Flag(Section.ANSWERS, "response header that shows the EPP saw the response")
    ] = False

    verbosity: Annotated[
        int,
        Flag(
            Section.OBSERVABILITY,
            "log verbosity: up to 3 info, 4 debug, 5 trace; negative: 2",
            name="v",
        ),
    ] = 2
    zap_log_level: Annotated[
        ZapLevel | None,
        Flag(Section.OBSERVABILITY, "wins over -v: debug, info, error, panic or a number above 0"),
    ] = None
    log_format: Annotated[
        Literal["json", "console"], Flag(Section.OBSERVABILITY, "how log lines are written")
    ] = "json"
    request_log: Annotated[bool, Flag(Section.OBSERVABILITY, "one log line per request")] = False
    decision_log_size: Annotated[
        WholeNumber,
        Flag(
            Section.OBSERVABILITY,
            "decisions kept for `epp explain`, fewer of pools beyond 256 endpoints; 0: none",
        ),
    ] = 256
    enable_grpc_stream_metrics: Annotated[
        bool, Flag(Section.OBSERVABILITY, "gauge, duration and result codes of ext_proc streams")
    ] = False
    tracing: Annotated[
        bool,
        Flag(
            Section.OBSERVABILITY,
            "OpenTelemetry spans of requests, if OTEL_TRACES_EXPORTER or the endpoint of a"
            " collector is set",
        ),
    ] = True
    deprecated_metrics: Annotated[
        bool, Flag(Section.OBSERVABILITY, "write metrics under their deprecated names too")
    ] = True
    seed: Annotated[int | None, Flag(Section.POOL, "make random choices repeatable, for tests")] = (
        None
    )
