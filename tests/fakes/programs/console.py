"""The console in a real browser, over a picker in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epp.app.application import Application
from epp.app.listeners import BoundPorts
from tests.fakes.pickers.applications import options_for_tests, running
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.pool_files import MANIFEST
from tests.fakes.programs.browser import Page, browser_page, installed_browser

BROWSER = installed_browser()
NO_BROWSER = "no Chromium: apt install chromium-headless-shell"

# Scored, and nobody is asked for metrics.
IN_FLIGHT = """
plugins: [{type: active-request-scorer}, {type: max-score-picker}]
schedulingProfiles:
- name: default
  plugins: [{pluginRef: active-request-scorer, weight: 3}, {pluginRef: max-score-picker}]
dataLayer: {injectDefaults: false}
"""
ROWS = "document.querySelectorAll('#endpoints-rows tr').length"
DECISIONS = "document.querySelectorAll('#decisions-rows > tr').length"


@dataclass(frozen=True, kw_only=True)
class Console:
    page: Page
    application: Application
    ports: BoundPorts

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.ports.admin}/"


def write_pool(path: Path, count: int) -> None:
    entries = "".join(
        f"- {{name: pod-{number}, address: 10.0.{number // 250}.{number % 250 + 1}}}\n"
        for number in range(count)
    )
    path.write_text(f"{MANIFEST}endpoints:\n{entries}")


@asynccontextmanager
async def console_of(folder: Path, count: int, **options: Any) -> AsyncIterator[Console]:
    """The console over so many endpoints, opened."""
    assert BROWSER is not None
    pool_file = folder / "pool.yaml"
    write_pool(pool_file, count)
    settings = options_for_tests(pool_file=pool_file, config_text=IN_FLIGHT, **options)
    async with (
        running(settings) as (application, ports),
        browser_page(BROWSER, folder / "browser") as page,
    ):
        console = Console(page=page, application=application, ports=ports)
        await page.open(console.address)
        await page.wait_for(f"document.readyState === 'complete' && {ROWS} > 0")
        await page.wait_for("document.querySelector('#document').textContent !== ''")
        yield console
        assert page.complaints == []


async def send(console: Console, request_id: str, model: str = "m") -> None:
    """A request that is decided and then given up."""
    async with gateway_client(console.ports.grpc) as client:
        exchange = client.exchange()
        body = b'{"model":"%s","prompt":"a"}' % model.encode()
        await exchange.post(body, {"x-request-id": request_id})
        await exchange.picked()
        exchange.cancel()
