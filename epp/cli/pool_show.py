"""`epp pool show`: what the pool is, and why a pod of it gets no traffic."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path

from epp.admin.pool_view import PoolView
from epp.cli.admin_port import add_admin_argument
from epp.cli.output import complain, print_json, print_table
from epp.cli.pool_readers import PoolUnreadable, read_cluster, read_file, read_running
from epp.cli.pool_table import pool_table
from epp.observability.logging import configure_logging

NOT_READY = 1

_DESCRIPTION = """\
Show a pool: its endpoints, and for every pod without one the reason. It is read from a running
Endpoint Picker (--admin), else once from a cluster (--pool-name) or a pool file (--pool-file).
Exit code 1 when the pool is not ready, missing, or can't be read.
"""


def add_arguments(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """Declare the flags."""
    parser.description = _DESCRIPTION
    source = parser.add_mutually_exclusive_group()
    add_admin_argument(source)
    source.add_argument("--pool-name", metavar="NAME", help="InferencePool in the cluster")
    source.add_argument("--pool-file", metavar="PATH", type=Path, help="pool file")
    parser.add_argument(
        "--pool-namespace",
        metavar="NAME",
        default=environment.get("NAMESPACE") or "default",
        help="namespace of --pool-name (environment NAMESPACE, else default)",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="PATH",
        type=Path,
        help="how to reach the cluster (default: as a pod does, else as kubectl does)",
    )
    parser.add_argument("--kube-context", metavar="NAME", help="context of the kubeconfig")
    parser.add_argument(
        "--output", choices=("table", "json"), default="table", help="(default %(default)s)"
    )


def run_command(arguments: argparse.Namespace) -> int:
    """Print the pool; 0 when it is ready. Raises `ConfigError`."""
    configure_logging("critical", "console")
    try:
        view = _read(arguments)
    except PoolUnreadable as error:
        complain("epp pool show", str(error))
        return NOT_READY
    if arguments.output == "json":
        print_json(view)
    else:
        is_running = arguments.pool_name is None and arguments.pool_file is None
        print_table(pool_table(view, has_load=is_running))
    return 0 if view.ready else NOT_READY


def _read(arguments: argparse.Namespace) -> PoolView:
    if arguments.pool_file is not None:
        return read_file(arguments.pool_file)
    if arguments.pool_name is not None:
        return asyncio.run(
            read_cluster(
                pool_name=arguments.pool_name,
                namespace=arguments.pool_namespace,
                kubeconfig=arguments.kubeconfig,
                context=arguments.kube_context,
            )
        )
    return asyncio.run(read_running(arguments.admin))
