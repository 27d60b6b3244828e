"""The page of the admin port: `/pool`, the pool as this process sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

if TYPE_CHECKING:
    from epp.datastore.datastore import Snapshot
    from epp.framework.endpoint import Endpoint


def admin_pages(
    snapshot: Callable[[], Snapshot],
    failure_mode: Callable[[], str],
    not_ready_reasons: Callable[[], Sequence[str]],
) -> web.Application:
    """Pages for the operator of one process."""

    async def pool(_request: web.Request) -> web.Response:
        now = snapshot()
        document = {
            "pool": None if now.pool is None else asdict(now.pool),
            "failureModeInForce": failure_mode(),
            "ready": not not_ready_reasons(),
            "notReadyReasons": list(not_ready_reasons()),
            "endpoints": [_endpoint(endpoint) for endpoint in now.endpoints],
        }
        return web.Response(body=msgspec.json.encode(document), content_type="application/json")

    application = web.Application()
    application.router.add_get("/pool", pool, allow_head=False)
    return application


def _endpoint(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "address": endpoint.address,
        "name": endpoint.name,
        "namespace": endpoint.namespace,
        "labels": dict(endpoint.labels),
        "inFlight": endpoint.load.in_flight,
        "recentPicks": endpoint.load.recent_picks,
    }
