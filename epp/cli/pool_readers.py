"""Where `epp pool show` takes a pool from: a running picker, a cluster, or a pool file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from epp.admin.pool_view import PoolView, view_pool
from epp.app.pool_events import speaks
from epp.cli.admin_port import TIMEOUT_SECONDS, NoAnswer, ask
from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import failure_mode_in_force
from epp.discovery.pool_file import parse_pool_file, read_content
from epp.framework.errors import ConfigError, PickerError
from epp.gateway.health import HealthConditions
from epp.kubernetes.answers import KubeStatusError, KubeUnreachable
from epp.kubernetes.client import KubeClient
from epp.kubernetes.pool_reading import read_pool
from epp.plugins.parsers.defaults import default_parsers
from epp.support.http_problems import http_problem


class PoolUnreadable(PickerError):
    """There is no telling how the pool is; the message says why, and what to do."""


async def read_running(address: str) -> PoolView:
    """The pool as the picker behind this admin port sees it."""
    other_ways = ", or read the pool by --pool-name or --pool-file"
    try:
        return await ask(address, "/pool", PoolView, hint=other_ways)
    except NoAnswer as error:
        raise PoolUnreadable(str(error)) from error


async def read_cluster(
    *, pool_name: str, namespace: str, kubeconfig: Path | None, context: str | None
) -> PoolView:
    """The pool as a picker would see it now that has just started."""
    datastore, problems = Datastore(), []
    client = await KubeClient.connect(kubeconfig, context)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await read_pool(client, pool_name=pool_name, namespace=namespace, datastore=datastore)
    except ConfigError as error:
        problems.append(str(error))
    except (KubeUnreachable, TimeoutError) as error:
        raise PoolUnreadable(
            f"no answer from the API server {client.server}: {http_problem(error)}"
        ) from error
    except KubeStatusError as error:
        raise PoolUnreadable(f"the API server {client.server} refuses: {error}") from error
    finally:
        await client.close()
    return _view(datastore, problems)


def read_file(path: Path) -> PoolView:
    """The pool as a picker would see it that reads this file; raises `ConfigError`."""
    datastore = Datastore()
    try:
        pool_file = parse_pool_file(read_content(path))
    except ConfigError as error:
        return _view(datastore, [str(error)])
    with datastore.batch():
        datastore.set_pool(pool_file.pool)
        datastore.set_pods(pool_file.pods)
        datastore.mark_synced()
    return _view(datastore, [*pool_file.skipped, *pool_file.warnings])


def _view(datastore: Datastore, problems: Sequence[str]) -> PoolView:
    snapshot = datastore.snapshot()
    pool = snapshot.pool
    conditions = HealthConditions(
        is_synced=True, is_protocol_supported=pool is None or speaks(pool, default_parsers())
    )
    return view_pool(
        snapshot,
        failure_mode=failure_mode_in_force(None, pool),
        not_ready_reasons=["no pool to serve"] if pool is None else conditions.not_ready_reasons(),
        problems=problems,
        unmatched=datastore.explanations(),
    )
