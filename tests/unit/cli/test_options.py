from __future__ import annotations

from pathlib import Path

import pytest

from epp.admin.http_tls import HttpTls
from epp.app.options import ServeOptions
from epp.app.pool_choice import PoolChoice
from epp.cli.flags import UsageError
from epp.cli.options import parse_serve, serve_flags

REFERENCE_DEFAULTS = {
    "--grpc-port": "9002",
    "--grpc-health-port": "9003",
    "--metrics-port": "9090",
    "--pool-name": "",
    "--pool-namespace": "",
    "--pool-group": "inference.networking.k8s.io",
    "--endpoint-selector": "",
    "--endpoint-target-ports": "",
    "--disable-endpoint-subset-filter": "false",
    "--emit-endpoint-scores": "false",
    "--ha-enable-leader-election": "false",
    "--drain-timeout": "30s",
    "--grpc-max-recv-msg-size": "",
    "--grpc-max-send-msg-size": "",
    "--enable-grpc-stream-metrics": "false",
    "--refresh-metrics-interval": "50ms",
    "--refresh-prometheus-metrics-interval": "5s",
    "--metrics-staleness-threshold": "2s",
    "--secure-serving": "true",
    "--cert-path": "",
    "--enable-cert-reload": "false",
    "--tls-min-version": "",
    "--tls-cipher-suites": "",
    "--health-checking": "false",
    "--metrics-client-ca-file": "",
    "--metrics-cert-dir": "",
    "--enable-pprof": "true",
    "--tracing": "true",
    "--config-file": "",
    "--config-text": "",
    "--allow-experimental-plugins": "false",
    "-v": "2",
    "--zap-log-level": "",
    "--zap-encoder": "",
    "--zap-devel": "false",
    "--zap-stacktrace-level": "",
    "--zap-time-encoding": "",
    "--total-queued-requests-metric": "vllm:num_requests_waiting",
    "--total-running-requests-metric": "vllm:num_requests_running",
    "--kv-cache-usage-percentage-metric": "vllm:kv_cache_usage_perc",
    "--lora-info-metric": "vllm:lora_requests_info",
    "--cache-info-metric": "vllm:cache_config_info",
}
OWN_DEFAULTS = {
    "--idle-metrics-interval": "1s",
    "--emit-events": "false",
    "--decision-header": "false",
    "--decision-log-size": "256",
    "--transport": "native",
    "--outlier-consecutive-errors": "5",
    "--pod-name": "",
    "--kubeconfig": "",
    "--kube-context": "",
    "--bind-address": "",
    "--admin-port": "9091",
    "--admin-address": "127.0.0.1",
    "--decision-timeout": "5s",
    "--body-idle-timeout": "60s",
    "--max-request-body-bytes": "64MiB",
    "--max-buffered-bytes": "1GiB",
    "--max-streams": "20000",
    "--max-loop-lag": "1s",
    "--shutdown-grace": "30s",
    "--error-format": "text",
    "--served-endpoint-header": "false",
    "--skip-response-processing": "false",
    "--debug-response-header": "false",
    "--log-format": "json",
    "--request-log": "false",
    "--deprecated-metrics": "true",
}
WITHOUT_DEFAULT = {"--pool-file", "--failure-mode", "--seed", "--metrics-endpoint-auth"}
METRIC_FLAGS = [flag for flag in REFERENCE_DEFAULTS if flag.endswith("-metric")]
DEPARTURES = {"--health-checking", *METRIC_FLAGS}

POOL = ["--pool-file", "pool.yaml"]


def problems_of(*arguments: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        parse_serve(arguments)
    return list(caught.value.problems)


def test_every_flag_is_in_a_table_of_these_tests() -> None:
    names = {flag.spelling for flag in serve_flags()}

    assert names == REFERENCE_DEFAULTS.keys() | OWN_DEFAULTS.keys() | WITHOUT_DEFAULT


@pytest.mark.parametrize("flag", sorted(REFERENCE_DEFAULTS.keys() - DEPARTURES))
def test_the_references_default_changes_nothing_when_it_is_given(flag: str) -> None:
    command = parse_serve([*POOL, f"{flag}={REFERENCE_DEFAULTS[flag]}"])

    assert command.options == ServeOptions(pool_file=Path("pool.yaml"))


@pytest.mark.parametrize("flag", sorted(OWN_DEFAULTS))
def test_an_own_default_changes_nothing_when_it_is_given(flag: str) -> None:
    command = parse_serve([*POOL, f"{flag}={OWN_DEFAULTS[flag]}"])

    assert command.options == ServeOptions(pool_file=Path("pool.yaml"))
    assert command.warnings == ()


@pytest.mark.parametrize("flag", sorted(REFERENCE_DEFAULTS))
def test_defaults_are_the_references_but_for_health_checking(flag: str) -> None:
    (declaration,) = [known for known in serve_flags() if known.spelling == flag]
    expected = "true" if flag == "--health-checking" else REFERENCE_DEFAULTS[flag]

    assert declaration.default in (declaration.kind.read(expected), expected)


def test_the_pool_file_alone_is_enough_to_start() -> None:
    command = parse_serve(POOL)

    assert command.options == ServeOptions(pool_file=Path("pool.yaml"))
    assert command.warnings == ()


@pytest.mark.parametrize(
    ("address", "is_warned_about"),
    [("127.0.0.1", False), ("::1", False), ("127.8.0.1", False), ("0.0.0.0", True), ("::", True)],
)
def test_an_admin_port_that_others_reach_is_warned_about(
    address: str, is_warned_about: bool
) -> None:
    warnings = parse_serve([*POOL, f"--admin-address={address}"]).warnings

    told = [text for text in warnings if text.startswith(f"--admin-address={address}: ")]
    assert len(told) == is_warned_about


def test_an_empty_admin_address_opens_the_port_to_nobody_else() -> None:
    assert parse_serve([*POOL, "--admin-address="]).options.admin_address == "127.0.0.1"


def test_options_arrive_with_their_values() -> None:
    command = parse_serve(
        [
            *POOL,
            "--failure-mode=FailOpen",
            "--bind-address=[::1]",
            "--grpc-max-recv-msg-size=10MiB",
            "--grpc-max-send-msg-size=25MB",
            "--max-request-body-bytes=4Mi",
            "--decision-timeout=250ms",
            "--health-checking=false",
            "--error-format=json",
            "--seed=7",
            "-v=5",
        ]
    )

    assert command.options == ServeOptions(
        pool_file=Path("pool.yaml"),
        failure_mode="FailOpen",
        bind_address="::1",
        grpc_max_recv_msg_size=10 * 2**20,
        grpc_max_send_msg_size=25_000_000,
        max_request_body_bytes=4 * 2**20,
        decision_timeout=0.25,
        health_checking=False,
        error_format="json",
        seed=7,
        verbosity=5,
    )


CHART_ARGUMENTS = [
    *("--pool-name", "qwen", "--pool-namespace", "llm", "--zap-encoder", "json"),
    "--ha-enable-leader-election",
    *("--config-file", "/config/default-plugins.yaml", "--grpc-health-port", "9003"),
    *("--tracing=false", "--metrics-endpoint-auth=false"),
]


def test_a_charts_arguments_start_without_a_word() -> None:
    command = parse_serve(CHART_ARGUMENTS)

    assert command.warnings == ()
    assert command.options == ServeOptions(
        pool_name="qwen",
        pool_namespace="llm",
        ha_enable_leader_election=True,
        config_file=Path("/config/default-plugins.yaml"),
        metrics_endpoint_auth=False,
        tracing=False,
    )


SELECTOR_ARGUMENTS = [
    *("--endpoint-selector", "app=vllm,env in (prod)"),
    *("--endpoint-target-ports", "8000,8001"),
]


def test_a_selector_stands_for_a_pool_named_after_the_pods_deployment() -> None:
    environment = {"POD_NAME": "my-epp-7c9d8f6b5d-x2x4z", "NAMESPACE": "llm"}

    command = parse_serve(SELECTOR_ARGUMENTS, environment)

    assert command.options.pool == PoolChoice(
        namespace="llm",
        selector="app=vllm,env in (prod)",
        target_ports=(8000, 8001),
        pod_name="my-epp-7c9d8f6b5d-x2x4z",
    )
    assert command.options.pool.name_in_cluster == "my-epp"
    assert command.warnings == ()


@pytest.mark.parametrize(
    ("pod_name", "problem"),
    [
        ("", "--endpoint-selector needs the name of this pod"),
        ("epp-0", "--pod-name 'epp-0' (or POD_NAME) is not the name of a Deployment's pod"),
    ],
    ids=["missing", "of a StatefulSet"],
)
def test_a_selector_without_a_deployments_pod_name_is_an_error(pod_name: str, problem: str) -> None:
    (found,) = problems_of(*SELECTOR_ARGUMENTS, "--pod-name", pod_name)

    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("arguments", "environment", "namespace"),
    [
        ([], {}, "default"),
        ([], {"NAMESPACE": "env"}, "env"),
        (["--pool-namespace="], {"NAMESPACE": "env"}, "env"),
        (["--pool-namespace=flag"], {"NAMESPACE": "env"}, "flag"),
        ([], {"NAMESPACE": ""}, "default"),
    ],
)
def test_the_namespace_comes_from_flag_then_environment_then_default(
    arguments: list[str], environment: dict[str, str], namespace: str
) -> None:
    command = parse_serve(["--pool-name=a", *arguments], environment)

    assert command.options.pool.namespace == namespace


def test_variables_of_a_pod_are_no_reason_to_warn_with_a_pool_file() -> None:
    command = parse_serve(POOL, {"NAMESPACE": "llm", "POD_NAME": "epp-0"})

    assert command.warnings == ()


@pytest.mark.parametrize(
    "argument",
    [
        "--pool-namespace=llm",
        "--pod-name=epp-0",
        "--kubeconfig=/config",
        "--kube-context=lab",
        "--ha-enable-leader-election",
    ],
)
def test_a_flag_for_the_cluster_is_warned_about_with_a_pool_file(argument: str) -> None:
    command = parse_serve([*POOL, argument])

    assert command.warnings == (f"{argument.partition('=')[0]} has no effect with --pool-file",)


def test_the_old_group_of_pools_is_refused_with_the_way_out() -> None:
    (problem,) = problems_of("--pool-name=a", "--pool-group=inference.networking.x-k8s.io")

    assert problem.startswith("--pool-group: 'inference.networking.x-k8s.io' is the group from")
    assert "apply the pool anew as apiVersion inference.networking.k8s.io/v1" in problem


def test_a_strange_group_of_pools_is_refused_with_what_is_allowed() -> None:
    (problem,) = problems_of("--pool-name=a", "--pool-group=example.com")

    assert problem == (
        "--pool-group: 'example.com' is not a group of InferencePools;"
        " allowed: inference.networking.k8s.io"
    )


@pytest.mark.parametrize(
    "argument",
    [
        "--enable-pprof=true",
        "--zap-encoder=console",
        "--zap-devel",
        "--zap-stacktrace-level=panic",
        "--zap-time-encoding=epoch",
        "--enable-cert-reload",
    ],
)
def test_a_flag_without_effect_is_warned_about_once(argument: str) -> None:
    command = parse_serve([*POOL, argument, argument])

    (warning,) = command.warnings
    assert warning.startswith(f"{argument.partition('=')[0]} has no effect")


def test_a_certificate_nobody_uses_is_warned_about() -> None:
    command = parse_serve([*POOL, "--cert-path=/certs", "--secure-serving=false"])

    assert command.warnings == ("--cert-path has no effect with --secure-serving=false",)


def test_certificates_of_scrapers_take_tls_on_the_metrics_port() -> None:
    (problem,) = problems_of(*POOL, "--metrics-client-ca-file=/ca.pem")

    assert problem.startswith("--metrics-client-ca-file takes --metrics-cert-dir: ")


def test_the_metrics_port_knows_certificate_and_client_ca() -> None:
    command = parse_serve([*POOL, "--metrics-client-ca-file=/ca.pem", "--metrics-cert-dir=/certs"])

    assert command.options.metrics_tls == HttpTls(
        cert_dir=Path("/certs"), client_ca_file=Path("/ca.pem")
    )


@pytest.mark.parametrize(
    ("arguments", "is_asked"),
    [
        (["--pool-name=a"], True),
        (["--pool-name=a", "--metrics-endpoint-auth"], True),
        (["--pool-name=a", "--metrics-endpoint-auth=false"], False),
        (POOL, False),
        ([*POOL, "--metrics-endpoint-auth=false"], False),
    ],
)
def test_the_metrics_port_asks_for_tokens_where_there_is_a_cluster(
    arguments: list[str], is_asked: bool
) -> None:
    command = parse_serve(arguments)

    assert command.options.guards_metrics is is_asked
    assert command.warnings == ()


@pytest.mark.parametrize("arguments", [POOL, ["--endpoint-selector=app=a"]])
def test_events_are_about_an_inference_pool(arguments: list[str]) -> None:
    assert any(
        problem.startswith("--emit-events takes an InferencePool")
        for problem in problems_of(*arguments, "--emit-events")
    )


def test_tokens_can_not_be_asked_about_without_a_cluster() -> None:
    (problem,) = problems_of(*POOL, "--metrics-endpoint-auth=true")

    assert problem.startswith("--metrics-endpoint-auth=true takes an API server to ask")


@pytest.mark.parametrize("transport", ["grpc", "native"])
def test_the_tls_minimum_of_both_transports_may_be_asked_for(transport: str) -> None:
    command = parse_serve([*POOL, "--tls-min-version=VersionTLS12", f"--transport={transport}"])
    assert command.warnings == ()


@pytest.mark.parametrize(
    "argument",
    [
        "--tls-min-version=VersionTLS13",
        "--tls-min-version=VersionTLS10",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ],
)
def test_tls_that_grpc_can_not_be_told_of_stops_the_start(argument: str) -> None:
    (problem,) = problems_of(*POOL, argument, "--transport=grpc")

    assert problem.startswith(f"{argument} can't be honoured with --transport=grpc")
    assert "--transport=native" in problem


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        (
            "--tls-min-version=VersionTLS11",
            "--tls-min-version: VersionTLS11 can't be the oldest version of HTTP/2; use"
            " VersionTLS12, VersionTLS13",
        ),
        (
            "--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA",
            "--tls-cipher-suites: TLS_RSA_WITH_AES_128_CBC_SHA can't be used with HTTP/2;",
        ),
    ],
)
def test_tls_that_http_2_forbids_stops_the_start(argument: str, problem: str) -> None:
    (told,) = problems_of(*POOL, argument, "--transport=native")

    assert told.startswith(problem)


def test_tls_of_the_native_transport_is_chosen_by_flags() -> None:
    suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256"

    command = parse_serve(
        [
            *POOL,
            "--transport=native",
            "--tls-min-version=VersionTLS13",
            f"--tls-cipher-suites={suites}",
        ]
    )

    assert command.options.tls.minimum == "VersionTLS13"
    assert command.options.tls.suites == tuple(suites.split(","))


def test_tls_settings_without_tls_are_warned_about() -> None:
    command = parse_serve(
        [
            *POOL,
            "--secure-serving=false",
            "--tls-min-version=VersionTLS13",
            "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        ]
    )

    assert command.warnings == (
        "--tls-min-version has no effect with --secure-serving=false",
        "--tls-cipher-suites has no effect with --secure-serving=false",
    )


@pytest.mark.parametrize("flag", METRIC_FLAGS)
def test_deprecated_metric_flags_stop_the_start_and_name_engine_configs(flag: str) -> None:
    (problem,) = problems_of(*POOL, f"{flag}={REFERENCE_DEFAULTS[flag]}")

    assert problem.startswith(f"{flag} ")
    assert "engineConfigs" in problem


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "no pool is given; use one of --pool-name, --endpoint-selector, --pool-file"),
        (
            [*POOL, "--pool-name=a"],
            "--pool-name and --pool-file exclude each other; give one of them",
        ),
        (
            [*POOL, "--endpoint-selector=a=b", "--endpoint-target-ports=1"],
            "--endpoint-selector and --pool-file exclude each other; give one of them",
        ),
        (
            [*POOL, "--endpoint-target-ports=8000"],
            "--endpoint-target-ports needs --endpoint-selector",
        ),
        (
            ["--endpoint-selector=a=b"],
            "--endpoint-selector needs --endpoint-target-ports, 1 to 8",
        ),
        (
            ["--endpoint-selector=a=b", "--endpoint-target-ports=1,2,3,4,5,6,7,8,9"],
            "--endpoint-target-ports has 9 ports; allowed: 1 to 8",
        ),
        (
            [*POOL, "--config-file=a", "--config-text=b"],
            "--config-file and --config-text exclude each other; give one of them",
        ),
        (
            [*POOL, "--grpc-port=9003"],
            "--grpc-port and --grpc-health-port are both 9003; each needs a port of its own",
        ),
    ],
)
def test_a_contradiction_names_both_flags(arguments: list[str], problem: str) -> None:
    assert problem in problems_of(*arguments)


def test_the_same_target_port_twice_counts_once() -> None:
    problems = problems_of("--endpoint-selector=a=b", "--endpoint-target-ports=1,2,3,4,5,6,7,8,8,1")

    assert not [problem for problem in problems if "has 10 ports" in problem]


def test_mistakes_of_every_kind_are_reported_together() -> None:
    problems = problems_of(
        "--nope", "--drain-timeout=soon", "--lora-info-metric=x", "--tls-min-version=VersionTLS13",
        "--transport=grpc",
        "--admin-port=9090",
    )  # fmt: skip

    assert [problem.split()[0] for problem in problems] == [
        "unknown",
        "--drain-timeout:",
        "--lora-info-metric",
        "no",
        "--tls-min-version=VersionTLS13",
        "--metrics-port",
    ]


def test_a_value_that_cannot_be_read_is_no_contradiction_as_well() -> None:
    assert problems_of(*POOL, "--grpc-port=x", "--metrics-port=9002") == [
        "--grpc-port: 'x' is not a number; allowed: whole numbers from 0 to 65535"
    ]


def test_help_is_given_whatever_else_is_wrong() -> None:
    assert parse_serve(["--nope", "--help"]).wants_help


@pytest.mark.parametrize(
    "selector",
    ["app=vllm", "app==vllm,tier!=x", "a in (b, c), d notin (e),!f , g", "llm-d.ai/role=x", "n>1"],
)
def test_selectors_that_the_api_server_takes_are_taken(selector: str) -> None:
    command = parse_serve(
        [f"--endpoint-selector={selector}", "--endpoint-target-ports=1", "--pod-name=e-6d5f8-abcde"]
    )

    assert command.options.endpoint_selector == selector


@pytest.mark.parametrize("selector", ["app in (x", "=x", "a b c", "app=Bad Value", ",", "a=b,"])
def test_a_selector_that_is_none_is_refused_at_the_start(selector: str) -> None:
    problems = problems_of(
        f"--endpoint-selector={selector}", "--endpoint-target-ports=1", "--pod-name=e-6d5f8-abcde"
    )

    assert any("is no label selector" in problem for problem in problems)


@pytest.mark.parametrize("flag", ["--pool-name=Bad_Name", "--pool-namespace=Bad NS"])
def test_names_that_kubernetes_does_not_allow_are_refused(flag: str) -> None:
    problems = problems_of("--pool-name=pool", flag)

    assert [problem.partition(":")[0] for problem in problems] == [flag.partition("=")[0]]


def test_scraping_more_often_than_every_50_ms_is_raised_with_a_warning() -> None:
    command = parse_serve([*POOL, "--refresh-metrics-interval=10ms"])

    assert command.warnings == ("--refresh-metrics-interval is raised to 50ms",)
