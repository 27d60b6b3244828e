"""The pages of the metrics port: `/metrics`, `/debug/plugins/state` and `/healthz`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec
from aiohttp import hdrs, web

from epp.admin.json_answers import json_answer
from epp.admin.metrics_guard import MetricsGuard
from epp.admin.page_headers import add_bare_headers
from epp.observability.metrics import Metrics
from epp.support.plugin_faults import PLUGIN_FAULTS


def metrics_pages(
    metrics: Metrics,
    plugin_state: Callable[[], Mapping[str, object]],
    guard: MetricsGuard | None = None,
) -> web.Application:
    """Pages about one process, for everybody or for those whom `guard` lets in.

    `plugin_state` gives, by plugin name, an object with `name`, `type` and `state` or `message`.
    """
    pages = _MetricsPages(metrics, plugin_state)
    application = web.Application()
    application.router.add_get("/metrics", pages.metrics)
    application.router.add_get("/debug/plugins/state", pages.plugin_state)
    application.router.add_get("/healthz", pages.health)
    if guard is not None:
        guard.add_to(application)
    application.on_response_prepare.append(add_bare_headers)
    return application


class _MetricsPages:
    def __init__(self, metrics: Metrics, plugin_state: Callable[[], Mapping[str, object]]) -> None:
        self._metrics = metrics
        self._plugin_state = plugin_state
        self._writing = asyncio.Lock()

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        slices, content_type = self._metrics.exposition(request.headers.get("Accept", ""))
        headers = {"Content-Type": content_type}
        compresses = "gzip" in request.headers.get("Accept-Encoding", "")
        if request.method == hdrs.METH_HEAD:
            # aiohttp's own compression would write the end of an empty body.
            encoding = {"Content-Encoding": "gzip"} if compresses else {}
            return web.Response(headers=headers | encoding)
        response = web.StreamResponse(headers=headers)
        if compresses:
            response.enable_compression(web.ContentCoding.gzip)
        try:
            await response.prepare(request)
            while piece := await self._next(slices):
                await response.write(piece)
            await response.write_eof()
        except ConnectionError:  # the scraper has left
            pass
        return response

    async def _next(self, slices: Iterator[bytes]) -> bytes | None:
        """The next slice, made in a turn of the event loop of its own: pages of thousands of
        series, and many scrapers at once, must not hold up requests."""
        async with self._writing:
            await asyncio.sleep(0)
            return next(slices, None)

    async def plugin_state(self, _request: web.Request) -> web.Response:
        plugins = {name: _encoded(state) for name, state in self._plugin_state().items()}
        document = {"timestamp": datetime.now(UTC), "plugins": plugins}
        return json_answer(document)

    async def health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")


def _encoded(state: object) -> msgspec.Raw:
    """One plugin's part of the page; what JSON can't hold must not cost the others."""
    try:
        return msgspec.Raw(msgspec.json.encode(state, enc_hook=repr))
    except PLUGIN_FAULTS as error:
        return msgspec.Raw(msgspec.json.encode({"message": f"no JSON: {type(error).__name__}"}))
