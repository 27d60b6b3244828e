"""The pages of the admin port: `/pool`, the pool as this process sees it, and groups of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from epp.admin.dry_run import MOST_DRY_RUN_BYTES
from epp.admin.host_guard import refuse_other_hosts, refuse_other_sites
from epp.admin.json_answers import json_answer
from epp.admin.page_headers import add_page_headers

if TYPE_CHECKING:
    from epp.admin.pool_view import PoolView


class PageGroup(Protocol):
    """Pages that belong together."""

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Serve them."""


def admin_pages(read_pool: Callable[[], PoolView], *groups: PageGroup) -> web.Application:
    """Pages for the operator of one process."""

    async def pool(_request: web.Request) -> web.Response:
        return json_answer(read_pool())

    application = web.Application(
        client_max_size=MOST_DRY_RUN_BYTES, middlewares=[refuse_other_hosts, refuse_other_sites]
    )
    application.router.add_get("/pool", pool)
    for group in groups:
        group.add_to(application.router)
    application.on_response_prepare.append(add_page_headers)
    return application
