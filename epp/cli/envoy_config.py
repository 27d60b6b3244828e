"""`epp envoy-config`: a bootstrap for an Envoy that is run by others."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from epp.cli.envoy_flags import ADMIN, DEFAULTS, EVERYWHERE
from epp.cli.output import print_page
from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import AppProtocol, FailureMode, failure_mode_in_force
from epp.datastore.snapshot import Snapshot
from epp.discovery.pool_file import parse_pool_file, read_content
from epp.framework.errors import ConfigError
from epp.observability.logging import configure_logging
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import EnvoySettings, envoy_bootstrap
from epp.standalone.envoy_tls import PickerIdentity
from epp.standalone.pool import parse_endpoints
from epp.support.addresses import canonical_ip
from epp.support.safe_text import printable

_DNS_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")
_HEADER = """\
# Bootstrap for Envoy, printed by epp envoy-config: envoy -c FILE
# {mode}; EPP: {pickers}, {security}
"""


def run_command(arguments: argparse.Namespace) -> int:
    """Print the bootstrap. Raises `ConfigError`."""
    configure_logging("critical", "console")
    settings, warnings = settings_from(arguments)
    for warning in warnings:
        print(f"epp envoy-config: warning: {printable(warning)}", file=sys.stderr)
    bootstrap = envoy_bootstrap(settings)
    if arguments.output == "json":
        print_page(json.dumps(bootstrap, indent=2) + "\n")
    else:
        print_page(_header(settings) + yaml.safe_dump(bootstrap, sort_keys=False))
    return 0


def settings_from(arguments: argparse.Namespace) -> tuple[EnvoySettings, list[str]]:
    """Put flags and pool together, and say which flags mean nothing."""
    snapshot, warnings = _read_pool(arguments.pool_file)
    pool = snapshot.pool
    flag = None if arguments.failure_mode is None else FailureMode(arguments.failure_mode)
    fail_open = failure_mode_in_force(flag, pool) is FailureMode.FAIL_OPEN
    if not fail_open:
        warnings += _meaningless_in_fail_close(arguments)
    protocol = arguments.app_protocol or (pool.app_protocol if pool else AppProtocol.HTTP)
    admin_port = arguments.envoy_admin_port
    pickers = parse_endpoints(arguments.epp, "--epp")
    settings = EnvoySettings(
        listener=Address(arguments.listen_address or EVERYWHERE, arguments.port),
        admin=Address(ADMIN.host, admin_port) if admin_port else None,
        pickers=pickers,
        epp_tls=arguments.secure_serving,
        epp_identity=_identity(arguments, pickers),
        fail_open=fail_open,
        endpoints=_fallback(arguments.endpoints, snapshot) if fail_open else (),
        app_protocol=AppProtocol(protocol),
        access_log=arguments.envoy_access_log or None,
        response_bodies=arguments.response_bodies,
        idle_timeout_seconds=arguments.idle_timeout,
        pick_timeout_seconds=arguments.pick_timeout or DEFAULTS.pick_timeout_seconds,
        max_request_body_bytes=(
            arguments.max_request_body_bytes or DEFAULTS.max_request_body_bytes
        ),
    )
    return settings, warnings


def _read_pool(path: Path | None) -> tuple[Snapshot, list[str]]:
    datastore = Datastore()
    if path is None:
        return datastore.snapshot(), []
    content = read_content(path)
    try:
        pool_file = parse_pool_file(content)
    except ConfigError as error:
        raise ConfigError(f"pool file {path}: {error}") from error
    with datastore.batch():
        datastore.set_pool(pool_file.pool)
        datastore.set_pods(pool_file.pods)
    problems = (*pool_file.skipped, *pool_file.warnings)
    return datastore.snapshot(), [f"pool file {path}: {problem}" for problem in problems]


def _fallback(flag: str | None, snapshot: Snapshot) -> tuple[Address, ...]:
    if flag is not None:
        return parse_endpoints(flag)
    if not snapshot.endpoints:
        raise ConfigError(
            "FailOpen needs to know where requests go without a pick: give --endpoints, for example"
            " the name of a headless Service over the pool's pods, or a --pool-file that lists"
            " endpoints"
        )
    return tuple(Address(each.ip, each.port) for each in snapshot.endpoints)


def _identity(arguments: argparse.Namespace, pickers: tuple[Address, ...]) -> PickerIdentity | None:
    ca_file, name = arguments.epp_ca_file, arguments.epp_server_name
    if not ca_file:
        if name:
            raise ConfigError("--epp-server-name takes --epp-ca-file: nothing is verified without")
        return None
    if not arguments.secure_serving:
        raise ConfigError("--epp-ca-file takes TLS, which --secure-serving=false turns off")
    hosts = {picker.host for picker in pickers}
    if not name and len(hosts) > 1:
        raise ConfigError(
            f"--epp-ca-file takes --epp-server-name: --epp has {len(hosts)} hosts, and their"
            " certificates have to share a name"
        )
    name = name or hosts.pop()
    if canonical_ip(name) is None and not _DNS_NAME.fullmatch(name):
        raise ConfigError(
            f"--epp-server-name: {name[:64]!r}: must be a DNS name or an IP address without port"
        )
    return PickerIdentity(ca_file=ca_file, name=name)


def _meaningless_in_fail_close(arguments: argparse.Namespace) -> Iterator[str]:
    reasons: dict[str, Any] = {
        "--endpoints": (arguments.endpoints, "requests go where the EPP says, or nowhere"),
        "--pick-timeout": (arguments.pick_timeout, "--decision-timeout of epp serve ends a pick"),
        "--max-request-body-bytes": (
            arguments.max_request_body_bytes,
            "that of epp serve limits bodies",
        ),
    }
    for name, (value, reason) in reasons.items():
        if value is not None:
            yield f"{name} has no effect in FailClose: {reason}"


def _header(settings: EnvoySettings) -> str:
    return _HEADER.format(
        mode=FailureMode.FAIL_OPEN if settings.fail_open else FailureMode.FAIL_CLOSE,
        pickers=", ".join(map(str, settings.pickers)),
        security=_security(settings),
    )


def _security(settings: EnvoySettings) -> str:
    if not settings.epp_tls:
        return "plaintext"
    identity = settings.epp_identity
    # Whoever sees the file should not have to look for what is missing in it.
    return f"TLS as {identity.name}" if identity else "TLS, certificate not verified"
