"""The page of the admin port: `/pool`, the pool as this process sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

if TYPE_CHECKING:
    from epp.admin.pool_view import PoolView


def admin_pages(read_pool: Callable[[], PoolView]) -> web.Application:
    """Pages for the operator of one process."""

    async def pool(_request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(read_pool()), content_type="application/json")

    application = web.Application()
    application.router.add_get("/pool", pool, allow_head=False)
    return application
