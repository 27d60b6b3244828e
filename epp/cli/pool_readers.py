"""Where `epp pool show` takes a pool from: a running picker, a cluster, or a pool file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import msgspec

from epp.admin.pool_view import PoolView, view_pool
from epp.app.pool_events import speaks
from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import failure_mode_in_force
from epp.discovery.pool_file import parse_pool_file, read_content
from epp.framework.errors import ConfigError, PickerError
from epp.gateway.health import HealthConditions
from epp.kubernetes.client import KubeClient, KubeStatusError, KubeUnreachable
from epp.kubernetes.pool_reading import read_pool
from epp.plugins.parsers.defaults import default_parsers

TIMEOUT_SECONDS = 15.0


class PoolUnreadable(PickerError):
    """There is no telling how the pool is; the message says why, and what to do."""


async def read_running(address: str) -> PoolView:
    """The pool as the picker behind this admin port sees it."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT_SECONDS)) as session,
            session.get(f"http://{address}/pool") as response,
        ):
            status, content = response.status, await response.read()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise PoolUnreadable(
            f"no Endpoint Picker answers at {address}: {_reason(error)}; name its admin port by"
            " --admin, or read the pool by --pool-name or --pool-file"
        ) from error
    try:
        return msgspec.json.decode(content, type=PoolView)
    except msgspec.MsgspecError as error:
        raise PoolUnreadable(
            f"{address} answers {status}, but is not the admin port of an Endpoint Picker"
        ) from error


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
            f"no answer from the API server {client.server}: {_reason(error)}"
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


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or "timeout"


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
