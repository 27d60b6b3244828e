"""What the reference's charts start its container with starts ours, unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from epp.app.options import ServeOptions
from epp.cli.options import parse_serve


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A container of a chart: arguments, environment, and what they have to mean."""

    arguments: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)


ENVIRONMENT = {"NAMESPACE": "models", "POD_NAME": "llama-epp-6f7c9d8b5-x2x4z"}
POOL = (
    *("--pool-name", "llama"),
    *("--pool-namespace", "models"),
    *("--pool-group", "inference.networking.k8s.io"),
)
SELECTOR = ("--endpoint-selector", "app=llama,tier=prod", "--endpoint-target-ports", "8000,8001")
CONFIG = ("--zap-encoder", "json", "--config-file", "/config/default-plugins.yaml")
HEALTH = ("--grpc-health-port", "9003")
FLAGS = (
    "--drain-timeout=45s",
    "--emit-endpoint-scores=true",
    "--enable-cert-reload=true",
    "--cert-path=/certs",
    "--enable-pprof=false",
    "--grpc-max-recv-msg-size=25MB",
    "--ha-enable-leader-election=false",
    "--health-checking=true",
    "--metrics-staleness-threshold=5s",
    "--refresh-metrics-interval=100ms",
    "--secure-serving=true",
    "--tls-min-version=VersionTLS12",
    "--v=4",
)

STARTS = {
    "gateway chart": Start(
        arguments=(*POOL, *CONFIG, *HEALTH, "--tracing=false"),
        options={"pool_name": "llama", "pool_namespace": "models"},
    ),
    "gateway chart, several replicas": Start(
        arguments=(*POOL, *CONFIG, "--ha-enable-leader-election", *HEALTH, "--tracing=false"),
        options={"ha_enable_leader_election": True},
    ),
    "gateway chart, flags": Start(
        arguments=(*POOL, *CONFIG, *HEALTH, *FLAGS, "--tracing=false"),
        options={"drain_timeout": 45.0, "verbosity": 4, "ha_enable_leader_election": False},
    ),
    "gateway chart, priority routing": Start(
        arguments=(*POOL, *CONFIG, *HEALTH, "--health-checking=true", "--tracing=false"),
        options={"health_checking": True},
    ),
    "gateway chart, metrics for all": Start(
        arguments=(*POOL, *CONFIG, *HEALTH, "--tracing=false", "--metrics-endpoint-auth=false"),
    ),
    "gateway chart, another health port": Start(
        arguments=(*POOL, *CONFIG, "--grpc-health-port", "9004", "--tracing=false"),
        options={"grpc_health_port": 9004},
    ),
    "standalone chart, no pool": Start(
        arguments=(*SELECTOR, *CONFIG, *HEALTH, "--tracing=false"),
        options={
            "endpoint_selector": "app=llama,tier=prod",
            "endpoint_target_ports": (8000, 8001),
            "pod_name": ENVIRONMENT["POD_NAME"],
        },
    ),
    "standalone chart, agentgateway": Start(
        arguments=(*SELECTOR, *CONFIG, *HEALTH, "--secure-serving=false", "--tracing=false"),
        options={"secure_serving": False},
    ),
    "lwepp": Start(
        arguments=(
            *("--pool-name", "llama", "--pool-namespace", "models"),
            *("--grpc-port", "9002", "--grpc-health-port", "9003", "--metrics-port", "9090"),
            *("--zap-encoder", "json", "--health-checking", "--secure-serving=true"),
        ),
        options={"pool_name": "llama", "grpc_port": 9002},
    ),
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_arguments_of_the_references_charts_start_ours_without_a_warning(start: Start) -> None:
    command = parse_serve(start.arguments, ENVIRONMENT)

    told = {name: getattr(command.options, name) for name in start.options}
    assert told == start.options
    assert not set(command.warnings)


def test_traces_may_be_switched_on_as_the_chart_does() -> None:
    command = parse_serve((*POOL, *CONFIG, *HEALTH, "--tracing=true"), ENVIRONMENT)

    assert command.options.pool_name == "llama"


def test_the_namespace_of_the_environment_is_enough() -> None:
    command = parse_serve(("--pool-name", "llama"), ENVIRONMENT)

    assert command.options.pool.namespace == "models"
    assert command.options.grpc_health_port == ServeOptions().grpc_health_port
