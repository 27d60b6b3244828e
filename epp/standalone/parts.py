"""What the parts of a standalone run are told, each in its own words."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from epp.app.options import ServeOptions
from epp.datastore.inference_pool import AppProtocol, FailureMode, failure_mode_in_force
from epp.datastore.snapshot import Snapshot
from epp.framework.errors import ConfigError
from epp.standalone.addresses import LOOPBACK, Addresses
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import EnvoySettings, envoy_bootstrap
from epp.standalone.options import StandaloneOptions
from epp.standalone.pool import ModelServer

# Slow enough to see events stream and a cached prompt pay, fast enough not to wait.
DEMONSTRATION_PACE = (
    "--time-to-first-token=20ms",
    "--prefill-time-per-token=100us",
    "--inter-token-latency=15ms",
)
# The kernel's limit for one argument of a program, its closing zero byte included.
LONGEST_ARGUMENT = 128 * 1024 - 1


def simulator_command(server: ModelServer, model: str | None) -> list[str]:
    """The command line of a simulated model server; without `model` it has one of its own."""
    command = [sys.executable, "-m", "epp", "simulator", "--exit-with-parent"]
    command += ["--host", server.address.host, "--port", str(server.address.port)]
    command += ["--name", server.name, *DEMONSTRATION_PACE]
    if model is not None:
        command += ["--model", model]
    return command


def picker_options(
    options: StandaloneOptions, pool_file: Path | None, addresses: Addresses
) -> ServeOptions:
    """The options of the picker; without `pool_file` its configuration says where endpoints are."""
    is_pool_made_here = pool_file is not None and options.pool_file is None
    return ServeOptions(
        pool_file=pool_file,
        failure_mode=None if is_pool_made_here else options.failure_mode,
        config_file=options.config_file,
        allow_experimental_plugins=options.allow_experimental_plugins,
        decision_header=options.decision_header,
        emit_endpoint_scores=options.emit_endpoint_scores,
        bind_address=LOOPBACK,
        grpc_port=addresses.ext_proc.port,
        grpc_health_port=addresses.health.port,
        metrics_port=addresses.metrics.port,
        admin_port=addresses.admin.port,
        secure_serving=False,
        max_request_body_bytes=options.max_request_body_bytes,
        drain_timeout=0.0,
        shutdown_grace=1.0,
        served_endpoint_header=True,
        error_format=options.error_format,
        log_format="console",
        request_log=True,
        **options.picker,
    )


def envoy_settings(
    options: StandaloneOptions, snapshot: Snapshot, addresses: Addresses
) -> EnvoySettings:
    """What Envoy is configured for, as the pool is at the start."""
    pool = snapshot.pool
    flag = None if options.failure_mode is None else FailureMode(options.failure_mode)
    log = options.envoy_access_log
    return EnvoySettings(
        listener=addresses.listener,
        admin=addresses.envoy_admin,
        pickers=(addresses.ext_proc,),
        endpoints=tuple(Address(each.ip, each.port) for each in snapshot.endpoints),
        fail_open=failure_mode_in_force(flag, pool) is FailureMode.FAIL_OPEN,
        app_protocol=pool.app_protocol if pool else AppProtocol.HTTP,
        access_log=None if log is None else str(log),
        max_request_body_bytes=options.max_request_body_bytes,
        response_bodies=options.response_bodies,
    )


def envoy_command(envoy: Path, settings: EnvoySettings) -> list[str]:
    """The command line of Envoy; raises `ConfigError` for more endpoints than fit in it."""
    document = json.dumps(envoy_bootstrap(settings), separators=(",", ":"))
    if len(document) > LONGEST_ARGUMENT:
        raise ConfigError(
            f"{len(settings.endpoints)} endpoints are too many for Envoy's fallback in"
            " FailOpen; allowed: about 1000"
        )
    command = [str(envoy), "--config-yaml", document]
    return [*command, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]
