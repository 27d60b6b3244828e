from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from epp.framework.errors import ConfigError
from epp.standalone.arguments import add_arguments, options_from
from epp.standalone.envoy_clusters import Address
from epp.standalone.options import StandaloneOptions


def parsed(*arguments: str) -> StandaloneOptions:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return options_from(parser.parse_args(arguments))


def test_nothing_given_means_three_simulators_on_the_usual_ports() -> None:
    assert parsed() == StandaloneOptions(simulators=3)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--endpoints", "[::1]:80"], StandaloneOptions(endpoints=(Address("::1", 80),))),
        (["--pool-file", "p.yaml"], StandaloneOptions(pool_file=Path("p.yaml"))),
        (["--simulators", "1"], StandaloneOptions(simulators=1)),
    ],
)
def test_model_servers_that_are_named_replace_the_simulators(
    arguments: list[str], expected: StandaloneOptions
) -> None:
    assert parsed(*arguments) == expected


def test_every_flag_reaches_its_option() -> None:
    options = parsed(
        *("--failure-mode=FailOpen", "--model=m", "--port=1", "--listen-address=::"),
        *("--grpc-port=2", "--grpc-health-port=3", "--metrics-port=4", "--admin-port=5"),
        *("--envoy-admin-port=6", "--envoy-access-log=log", "--max-request-body-bytes=1Mi", "-v"),
        *("--allow-experimental-plugins", "--decision-header", "--emit-endpoint-scores"),
        *("--response-bodies=false", "--transport=grpc", "--seed=7"),
        "--outlier-consecutive-errors=0",
    )

    assert options == StandaloneOptions(
        simulators=3,
        failure_mode="FailOpen",
        model="m",
        port=1,
        listen_address="::",
        grpc_port=2,
        grpc_health_port=3,
        metrics_port=4,
        admin_port=5,
        envoy_admin_port=6,
        envoy_access_log=Path("log"),
        max_request_body_bytes=1 << 20,
        verbose=True,
        allow_experimental_plugins=True,
        decision_header=True,
        emit_endpoint_scores=True,
        response_bodies=False,
        picker={"transport": "grpc", "outlier_consecutive_errors": 0, "seed": 7},
    )


def test_a_configuration_goes_with_simulators(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("plugins: [{type: queue-scorer}]")

    options = parsed(f"--config-file={config}")

    assert (options.config_file, options.simulators) == (config, 3)


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    """A configuration that says where endpoints are."""
    config = tmp_path / "config.yaml"
    config.write_text("dataLayer: {discovery: {pluginRef: file-discovery}}")
    return config


def test_a_configuration_that_lists_endpoints_replaces_the_simulators(listing: Path) -> None:
    assert parsed(f"--config-file={listing}") == StandaloneOptions(config_file=listing)


def test_endpoints_can_not_be_given_twice(listing: Path) -> None:
    with pytest.raises(ConfigError, match=r"--simulators and dataLayer\.discovery in"):
        parsed("--simulators=2", f"--config-file={listing}")


def test_a_configuration_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml can't be read"):
        parsed("--config-file=missing.yaml")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--endpoints=a:1", "--pool-file=f"], "--endpoints and --pool-file exclude one another"),
        (["--simulators=2", "--pool-file=f"], "--simulators and --pool-file exclude one another"),
        (["--endpoints=a:1", "--model=m"], "--model is for simulators; --endpoints names"),
        (["--endpoints=a"], "'a' is not an address"),
    ],
)
def test_flags_that_contradict_are_both_named(arguments: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(*arguments)

    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--port=70000", "'70000' is out of range"),
        ("--simulators=0", "'0' is out of range; allowed: whole numbers from 1 to 32"),
        ("--listen-address=here", "'here' is not an IP address"),
        ("--max-request-body-bytes=much", "'much' is not a size"),
        ("--transport=grpcio", "'grpcio' is not one of grpc, native; did you mean 'grpc'?"),
    ],
)
def test_a_value_that_means_nothing_is_refused_with_what_is_allowed(
    argument: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(argument)

    assert problem in capsys.readouterr().err
