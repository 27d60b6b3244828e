"""The command line of `epp standalone`."""

from __future__ import annotations

import argparse
from pathlib import Path

from epp.app.flag_kinds import Bytes, IpAddress, Port, kind_of, whole_number
from epp.config.loader import read_config
from epp.framework.errors import ConfigError
from epp.standalone.command import run_standalone
from epp.standalone.options import StandaloneOptions
from epp.standalone.passed_on import add_passed_on, passed_on_from
from epp.standalone.pool import parse_endpoints
from epp.support.argument_types import argument_type
from epp.support.quantities import format_quantity

DEFAULT_SIMULATORS = 3
MOST_SIMULATORS = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    largest_body = StandaloneOptions().max_request_body_bytes
    _add_model_servers(parser.add_argument_group("Model servers"))
    _add_picking(parser.add_argument_group("How endpoints are picked"))
    _add_ports(parser.add_argument_group("Ports (a taken one moves to the next that is free)"))
    add_passed_on(parser.add_argument_group("As for epp serve"))
    others = parser.add_argument_group("Others")
    others.add_argument(
        "--max-request-body-bytes",
        type=argument_type(kind_of(Bytes).read),
        default=largest_body,
        metavar="SIZE",
        help=f"largest request body, then 413 (default {format_quantity(largest_body)})",
    )
    others.add_argument(
        "--response-bodies",
        type=argument_type(kind_of(bool).read),
        default=StandaloneOptions().response_bodies,
        metavar="BOOL",
        help="false: Envoy keeps response bodies from the EPP, which saves both CPU for each"
        " piece and costs token counts and times per token (default true)",
    )
    others.add_argument(
        "--envoy-access-log",
        type=Path,
        metavar="FILE",
        help="Envoy's access log as JSON lines (default none)",
    )
    others.add_argument(
        "-v", "--verbose", action="store_true", help="show what Envoy and simulators print"
    )


def _add_model_servers(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--simulators",
        type=argument_type(whole_number("N", 1, MOST_SIMULATORS).read),
        metavar="N",
        help=f"start N simulated model servers (default {DEFAULT_SIMULATORS}, unless"
        " --endpoints or --pool-file name real ones)",
    )
    group.add_argument(
        "--endpoints",
        metavar="HOST:PORT,...",
        help="model servers that run already, for example vLLM: 127.0.0.1:8000,[::1]:8001",
    )
    group.add_argument(
        "--pool-file",
        type=Path,
        metavar="FILE",
        help="YAML file with the InferencePool and its endpoints; read on change, except for"
        " Envoy's fallback in FailOpen",
    )
    group.add_argument(
        "--failure-mode",
        choices=("FailOpen", "FailClose"),
        help="what a failure of the EPP means (default: the pool's, else FailClose)",
    )
    group.add_argument("--model", metavar="NAME", help="model the simulators serve")
    group.add_argument(
        "--error-format",
        choices=("text", "json"),
        default=StandaloneOptions().error_format,
        help="text, or json as OpenAI writes errors (default %(default)s)",
    )


def _add_picking(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--config-file",
        type=Path,
        metavar="FILE",
        help="EndpointPickerConfig; read on change (default: what `epp config check` prints)",
    )
    group.add_argument(
        "--allow-experimental-plugins",
        action="store_true",
        help="allow plugins whose stability is Alpha",
    )
    group.add_argument(
        "--decision-header",
        action="store_true",
        help="response header x-epp-decision: which scorer gave whom what",
    )
    group.add_argument(
        "--emit-endpoint-scores",
        action="store_true",
        help="every candidate's total as dynamic metadata, and in --envoy-access-log",
    )


def _add_ports(group: argparse._ArgumentGroup) -> None:
    defaults = StandaloneOptions()
    group.add_argument(
        "--listen-address",
        type=argument_type(kind_of(IpAddress).read),
        default=defaults.listen_address,
        metavar="IP",
        help="where Envoy listens for clients (default %(default)s)",
    )
    for flag, default, purpose in (
        ("--port", defaults.port, "Envoy, for clients"),
        ("--grpc-port", defaults.grpc_port, "ext_proc service of the EPP"),
        ("--grpc-health-port", defaults.grpc_health_port, "gRPC health service of the EPP"),
        ("--metrics-port", defaults.metrics_port, "/metrics of the EPP"),
        ("--admin-port", defaults.admin_port, "admin pages of the EPP"),
        ("--envoy-admin-port", defaults.envoy_admin_port, "admin pages of Envoy"),
    ):
        group.add_argument(
            flag,
            type=argument_type(kind_of(Port).read),
            default=default,
            metavar="PORT",
            help=f"{purpose} (default %(default)s)",
        )


def options_from(namespace: argparse.Namespace) -> StandaloneOptions:
    """Check what was given together; a `ConfigError` names both flags."""
    given = [
        flag
        for flag, value in (
            ("--simulators", namespace.simulators),
            ("--endpoints", namespace.endpoints),
            ("--pool-file", namespace.pool_file),
        )
        if value is not None
    ]
    if namespace.config_file is not None and read_config(namespace.config_file).discovery:
        given.append("dataLayer.discovery in --config-file")
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} exclude one another; give one of them")
    if namespace.model is not None and given not in ([], ["--simulators"]):
        raise ConfigError(f"--model is for simulators; {given[0]} names servers with models")
    return StandaloneOptions(
        simulators=namespace.simulators or (0 if given else DEFAULT_SIMULATORS),
        endpoints=() if namespace.endpoints is None else parse_endpoints(namespace.endpoints),
        pool_file=namespace.pool_file,
        failure_mode=namespace.failure_mode,
        config_file=namespace.config_file,
        allow_experimental_plugins=namespace.allow_experimental_plugins,
        decision_header=namespace.decision_header,
        emit_endpoint_scores=namespace.emit_endpoint_scores,
        model=namespace.model,
        port=namespace.port,
        listen_address=namespace.listen_address or "0.0.0.0",
        grpc_port=namespace.grpc_port,
        grpc_health_port=namespace.grpc_health_port,
        metrics_port=namespace.metrics_port,
        admin_port=namespace.admin_port,
        envoy_admin_port=namespace.envoy_admin_port,
        envoy_access_log=namespace.envoy_access_log,
        max_request_body_bytes=namespace.max_request_body_bytes,
        response_bodies=namespace.response_bodies,
        error_format=namespace.error_format,
        picker=passed_on_from(namespace),
        verbose=namespace.verbose,
    )


def run_command(namespace: argparse.Namespace) -> int:
    """Run until Ctrl-C; returns the exit code."""
    return run_standalone(options_from(namespace))
