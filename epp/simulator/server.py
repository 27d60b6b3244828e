"""The HTTP server around an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from epp.simulator.anthropic_api import AnthropicApi
from epp.simulator.catalog import Catalog, Ids
from epp.simulator.clock import Clock, SystemClock
from epp.simulator.echo import echo
from epp.simulator.engine import Engine
from epp.simulator.failures import FailureSwitches
from epp.simulator.metrics import MetricsPage
from epp.simulator.middlewares import errors, name_header
from epp.simulator.openai_api import OpenAiApi
from epp.simulator.pages import Pages, breaker
from epp.simulator.settings import SimulatorSettings
from epp.simulator.text import Writer
from epp.support.addresses import join_host_port

ENGINE: web.AppKey[Engine] = web.AppKey("engine", Engine)
FAILURES: web.AppKey[FailureSwitches] = web.AppKey("failures", FailureSwitches)

_SHUTDOWN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunningSimulator:
    """A server that accepts connections."""

    host: str
    port: int
    engine: Engine
    failures: FailureSwitches

    @property
    def address(self) -> str:
        """`host:port`."""
        return join_host_port(self.host, self.port)

    @property
    def url(self) -> str:
        """Where it is found."""
        return f"http://{self.address}"


def make_app(settings: SimulatorSettings, clock: Clock | None = None) -> web.Application:
    """One simulated server, to be run by `serve` or with `handler_cancellation`."""
    clock = clock or SystemClock()
    engine = Engine(settings, clock)
    switches = FailureSwitches(settings.failures, settings.seed)
    catalog = Catalog(settings, int(clock.unix_time()))
    writer, ids = Writer(settings), Ids(settings.seed)
    openai = OpenAiApi(engine, catalog, writer, ids, clock)
    anthropic = AnthropicApi(engine, catalog, writer, ids)
    pages = Pages(MetricsPage(engine, settings), switches, clock)

    breakable = breaker(switches)

    app = web.Application(client_max_size=0, middlewares=[errors])
    app[ENGINE], app[FAILURES] = engine, switches
    app.on_response_prepare.append(name_header(settings.name))
    app.add_routes(
        [
            web.post("/v1/chat/completions", breakable(openai.chat)),
            web.post("/v1/completions", breakable(openai.completions)),
            web.post("/v1/embeddings", breakable(openai.embeddings)),
            web.post("/v1/messages", breakable(anthropic.messages)),
            web.post("/v1/messages/count_tokens", anthropic.count_tokens),
            web.get("/v1/models", openai.models),
            web.get("/metrics", pages.metrics),
            web.get("/health", pages.health),
            web.get("/health/ready", pages.health),
            web.get("/ping", pages.health),
            web.get("/simulator/failures", pages.show_failures),
            web.post("/simulator/failures", pages.set_failures),
            web.post("/echo", echo),
            web.post("/echo/{rest:.*}", echo),
        ]
    )
    return app


@asynccontextmanager
async def serve(
    settings: SimulatorSettings, clock: Clock | None = None
) -> AsyncIterator[RunningSimulator]:
    """Serve inside the `with` block; open connections are cut at its end."""
    app = make_app(settings, clock)
    runner = web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,  # the echo endpoint returns bytes as they came
        handler_cancellation=True,  # a client that leaves frees its slot at once
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
        port = runner.addresses[0][1]
        yield RunningSimulator(settings.host, port, app[ENGINE], app[FAILURES])
    finally:
        await runner.cleanup()
