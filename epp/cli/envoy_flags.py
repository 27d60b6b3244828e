"""The flags of `epp envoy-config`, named and read as those of `epp serve` and `epp standalone`."""

from __future__ import annotations

import argparse
from pathlib import Path

from epp.app.flag_kinds import Bytes, IpAddress, Kind, Port, PositiveSeconds, kind_of
from epp.app.options import ServeOptions
from epp.datastore.inference_pool import AppProtocol, FailureMode
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import EnvoySettings
from epp.support.argument_types import argument_type
from epp.support.durations import format_duration
from epp.support.quantities import format_quantity

EVERYWHERE = "0.0.0.0"
STDOUT = "/dev/stdout"
LONGEST_PICK_SECONDS = 3600.0
"""Envoy refuses more."""
LISTENER = Address(EVERYWHERE, 8080)
ADMIN = Address("127.0.0.1", 19000)
SIDECAR = Address("127.0.0.1", ServeOptions().grpc_port)

DEFAULTS = EnvoySettings(listener=LISTENER, pickers=(SIDECAR,), fail_open=False)

_DESCRIPTION = """\
Print a bootstrap for Envoy in front of Endpoint Pickers (EPPs): run it with envoy -c FILE. Without
flags it is for an EPP in the same pod, FailClose. In FailClose requests go to the endpoint that was
picked and nowhere else, without an EPP they are answered with 503. In FailOpen Envoy keeps each
body, and spreads requests over the pool while there is no EPP.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.description = _DESCRIPTION
    _add_pool(parser.add_argument_group("Pool"))
    _add_epp(parser.add_argument_group("EPP"))
    _add_envoy(parser.add_argument_group("Envoy"))
    _add_limits(parser.add_argument_group("Limits"))
    parser.add_argument(
        "--output",
        choices=("yaml", "json"),
        default="yaml",
        help="yaml for a file that is called .yaml, json for .json (default %(default)s)",
    )


def _add_pool(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--pool-file",
        type=Path,
        metavar="FILE",
        help="YAML file with the InferencePool and, where there are any, its endpoints: failure"
        " mode, protocol and endpoints are taken from it",
    )
    group.add_argument(
        "--failure-mode",
        choices=tuple(map(str, FailureMode)),
        help="what happens without an EPP (default: the pool's, else FailClose)",
    )
    group.add_argument(
        "--app-protocol",
        choices=tuple(map(str, AppProtocol)),
        help="how model servers are spoken to (default: the pool's, else http)",
    )
    group.add_argument(
        "--endpoints",
        metavar="HOST:PORT,...",
        help="FailOpen: where requests go without a pick, for example the name of a headless"
        " Service over the pool's pods, once for each target port (default: those of --pool-file)",
    )


def _add_epp(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--epp",
        metavar="HOST:PORT,...",
        default=str(SIDECAR),
        help="ext_proc ports of all replicas; the name of a headless Service stands for each of"
        " its pods. Those that are healthy are asked (default %(default)s)",
    )
    group.add_argument(
        "--secure-serving",
        type=_read_as(kind_of(bool)),
        default=ServeOptions().secure_serving,
        metavar="BOOL",
        help="what epp serve has for it: TLS, whose certificate is not verified without"
        " --epp-ca-file (default true)",
    )
    group.add_argument(
        "--epp-ca-file",
        metavar="FILE",
        help="PEM, where Envoy runs: the CA that the EPP's certificate has to be of; Envoy reads it"
        " when it starts (default: any certificate will do)",
    )
    group.add_argument(
        "--epp-server-name",
        metavar="NAME",
        help="with --epp-ca-file: DNS name or IP address that the certificate has to have among its"
        " subject alternative names (default: the host of --epp)",
    )


def _add_envoy(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--listen-address",
        type=_read_as(kind_of(IpAddress)),
        default=LISTENER.host,
        metavar="IP",
        help="where Envoy listens for clients (default %(default)s)",
    )
    group.add_argument(
        "--port",
        type=_read_as(kind_of(Port)),
        default=LISTENER.port,
        metavar="PORT",
        help="Envoy, for clients (default %(default)s)",
    )
    group.add_argument(
        "--envoy-admin-port",
        type=_read_as(kind_of(Port)),
        default=ADMIN.port,
        metavar="PORT",
        help=f"admin pages of Envoy on {ADMIN.host}; 0: none (default %(default)s)",
    )
    group.add_argument(
        "--envoy-access-log",
        default=STDOUT,
        metavar="FILE",
        help="Envoy's access log as JSON lines; empty: none (default %(default)s)",
    )
    group.add_argument(
        "--response-bodies",
        type=_read_as(kind_of(bool)),
        default=DEFAULTS.response_bodies,
        metavar="BOOL",
        help="false: Envoy keeps response bodies from the EPP, which saves both CPU for each"
        " piece and costs token counts and times per token (default true)",
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--idle-timeout",
        type=_read_as(kind_of(PositiveSeconds)),
        default=DEFAULTS.idle_timeout_seconds,
        metavar="DURATION",
        help="how long nothing may happen to a request, queued or generating"
        f" (default {format_duration(DEFAULTS.idle_timeout_seconds)})",
    )
    group.add_argument(
        "--pick-timeout",
        type=argument_type(_read_pick_timeout),
        metavar="DURATION",
        help="FailOpen: how long an EPP may take, queueing included, before Envoy goes on"
        f" without (default {format_duration(DEFAULTS.pick_timeout_seconds)})",
    )
    group.add_argument(
        "--max-request-body-bytes",
        type=_read_as(kind_of(Bytes)),
        metavar="SIZE",
        help="FailOpen: largest request body Envoy keeps, then 413; in FailClose the flag of"
        f" epp serve counts (default {format_quantity(DEFAULTS.max_request_body_bytes)})",
    )


def _read_as(kind: Kind) -> argparse._ActionType:
    return argument_type(kind.read)


def _read_pick_timeout(text: str) -> float:
    seconds: float = kind_of(PositiveSeconds).read(text)
    if seconds > LONGEST_PICK_SECONDS:
        longest = format_duration(LONGEST_PICK_SECONDS)
        raise ValueError(f"{text!r} is too long; allowed: up to {longest}")
    return seconds
