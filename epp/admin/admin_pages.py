"""The pages of the admin port: `/pool`, the pool as this process sees it, and decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from epp.admin.dry_run import MOST_DRY_RUN_BYTES

if TYPE_CHECKING:
    from epp.admin.decision_pages import DecisionPages
    from epp.admin.pool_view import PoolView


def admin_pages(read_pool: Callable[[], PoolView], decisions: DecisionPages) -> web.Application:
    """Pages for the operator of one process."""

    async def pool(_request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(read_pool()), content_type="application/json")

    application = web.Application(client_max_size=MOST_DRY_RUN_BYTES)
    application.router.add_get("/pool", pool, allow_head=False)
    decisions.add_to(application.router)
    return application
