"""Everything but inference, and what breaks inference on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler

from epp.simulator.bodies import json_response, read_json
from epp.simulator.clock import Clock
from epp.simulator.errors import ApiError
from epp.simulator.event_stream import FATE
from epp.simulator.failures import Failures, FailureSwitches
from epp.simulator.metrics import MetricsPage


class Pages:
    """Handlers; one object per server."""

    def __init__(self, metrics: MetricsPage, switches: FailureSwitches, clock: Clock) -> None:
        self._metrics = metrics
        self._switches = switches
        self._clock = clock

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """`GET /metrics`"""
        if delay := self._switches.current.slow_metrics_seconds:
            await self._clock.sleep(delay)
        headers = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self._metrics.render(), headers=headers)

    async def health(self, request: web.Request) -> web.StreamResponse:
        """`GET /health`"""
        return web.Response()

    async def show_failures(self, request: web.Request) -> web.StreamResponse:
        """`GET /simulator/failures`"""
        return json_response(self._switches.current)

    async def set_failures(self, request: web.Request) -> web.StreamResponse:
        """`POST /simulator/failures`: what the body does not name is switched off."""
        self._switches.current = await read_json(request, Failures)
        return json_response(self._switches.current)


def breaker(switches: FailureSwitches) -> Callable[[Handler], Handler]:
    """Makes a handler obey the failure switches."""

    def breakable(inner: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            fate = request[FATE] = switches.next_fate()
            if fate.stall or fate.status is not None:
                await request.read()
            if fate.stall:
                await asyncio.Event().wait()
            if fate.status is not None:
                raise ApiError(fate.status, "The simulator was told to fail.")
            return await inner(request)

        return handle

    return breakable
