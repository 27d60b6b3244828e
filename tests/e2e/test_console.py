"""The console in a real browser, over a picker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epp.admin.pool_view import EndpointPart, PodPart, PoolView
from epp.app.application import Application
from epp.app.listeners import BoundPorts
from tests.fakes.applications import BODY, options_for_tests, running
from tests.fakes.browser import Page, browser_page, installed_browser
from tests.fakes.gateway_client import gateway_client
from tests.fakes.pool_files import MANIFEST

BROWSER = installed_browser()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium: apt install chromium-headless-shell"),
]

# Scored, and nobody is asked for metrics.
IN_FLIGHT = """
plugins: [{type: active-request-scorer}, {type: max-score-picker}]
schedulingProfiles:
- name: default
  plugins: [{pluginRef: active-request-scorer, weight: 3}, {pluginRef: max-score-picker}]
dataLayer: {injectDefaults: false}
"""
MARKUP = "<img src=x onerror=alert(1)>"
ROWS = "document.querySelectorAll('#endpoints-rows tr').length"
DECISIONS = "document.querySelectorAll('#decisions-rows > tr').length"
AWHILE = "new Promise((resolve) => setTimeout(resolve, 2500))"
HIDDEN = (
    "Object.defineProperty(document, 'hidden', { configurable: true, value: %s });"
    "document.dispatchEvent(new Event('visibilitychange'))"
)
CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const parts = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3]));
  const light = (colour) => {
    const [red, green, blue] = colour.map((each) => {
      const part = each / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const back = (element) => {
    const chain = [];
    for (let each = element; each; each = each.parentElement) chain.unshift(each);
    return chain.reduce((below, each) => over(parts(getComputedStyle(each).backgroundColor), below),
      [255, 255, 255]);
  };
  const ratio = (element) => {
    const below = back(element);
    const pair = [light(below), light(over(parts(getComputedStyle(element).color), below))];
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  };
  const shown = (element) => element.offsetParent !== null
    && [...element.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
  return [...document.querySelectorAll('body *')].filter(shown)
    .map((element) => [element.tagName + '.' + element.className, ratio(element)]);
})()
"""


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


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with console_of(tmp_path, 3) as console:
        yield console


async def send(console: Console, request_id: str, model: str = "m") -> None:
    """A request that is decided and then given up."""
    async with gateway_client(console.ports.grpc) as client:
        exchange = client.exchange()
        body = b'{"model":"%s","prompt":"a"}' % model.encode()
        await exchange.post(body, {"x-request-id": request_id})
        await exchange.picked()
        exchange.cancel()


async def test_it_shows_the_pool_and_the_configuration_of_a_ready_picker(console: Console) -> None:
    page = console.page

    assert await page.text("#readiness") == "Ready"
    assert "default/pool" in await page.text("#pool")
    assert "FailClose" in await page.text("#pool")
    assert await page.text("#version") != ""
    assert "kind: EndpointPickerConfig" in await page.text("#document")
    assert "10.0.0.2:8000" in await page.text("#endpoints-rows")
    assert await page.evaluate(ROWS) == 3


async def test_a_decision_appears_and_tells_its_scores_when_it_is_opened(console: Console) -> None:
    page = console.page
    await send(console, "request-1")
    await page.wait_for(f"{DECISIONS} === 1")

    await page.evaluate("document.querySelector('.expander').click()")
    await page.wait_for("document.querySelectorAll('.detail tbody tr').length === 3")

    assert "request-1" in await page.text("#decisions-rows")
    assert "active-request-scorer \N{MULTIPLICATION SIGN} 3" in await page.text(".detail")


async def test_what_is_opened_stays_open_while_others_arrive(console: Console) -> None:
    page = console.page
    await send(console, "request-1")
    await page.wait_for(f"{DECISIONS} === 1")
    await page.evaluate("document.querySelector('.expander').click()")
    await page.wait_for("document.querySelector('.detail tbody')")

    await send(console, "request-2")
    await page.wait_for(f"{DECISIONS} === 3")

    expanded = "[...document.querySelectorAll('.expander')].map((each) => each.ariaExpanded)"
    assert await page.evaluate(expanded) == ["false", "true"]
    after = "document.querySelector('.detail').previousSibling.textContent.includes('request-1')"
    assert await page.evaluate(after)


async def test_names_that_clients_choose_stay_text(console: Console) -> None:
    page = console.page

    await send(console, MARKUP, MARKUP)
    await page.wait_for(f"{DECISIONS} === 1")

    assert MARKUP in await page.text("#decisions-rows")
    assert await page.evaluate("document.querySelectorAll('img').length") == 0


async def test_nothing_is_asked_of_anybody_else(console: Console) -> None:
    await send(console, "request-1")
    await console.page.wait_for(f"{DECISIONS} === 1")

    asked = [url for url in console.page.requests if url != "about:blank"]
    assert asked
    assert [url for url in asked if not url.startswith(console.address)] == []


async def test_the_keyboard_reaches_everything_in_the_order_of_the_page(console: Console) -> None:
    page = console.page
    await send(console, "request-1")
    await page.wait_for(f"{DECISIONS} === 1")
    await page.evaluate("document.querySelector('#document').parentElement.open = true")
    name = (
        "((each) => each.id || (each.role === 'group'"
        " ? 'group ' + document.getElementById(each.getAttribute('aria-labelledby')).textContent"
        " : each.textContent))(document.activeElement)"
    )
    outline = "getComputedStyle(document.activeElement).outlineStyle"

    reached: list[str] = []
    while not reached or reached[-1] != "document":
        await page.press("Tab")
        reached.append(await page.evaluate(name))
        assert await page.evaluate(outline) != "none", reached

    heads = await page.evaluate(
        "[...document.querySelectorAll('#endpoints-head th')].map((each) => each.textContent)"
    )
    assert reached[:3] == ["Skip to the endpoints", "pause", "filter"]
    assert reached[3:] == [
        "group Endpoints",
        *heads,
        "group Decisions",
        await page.evaluate("document.querySelector('.expander').textContent"),
        "As resolved",
        "document",
    ]


async def test_a_decision_is_opened_by_the_keyboard(console: Console) -> None:
    page = console.page
    await send(console, "request-1")
    await page.wait_for(f"{DECISIONS} === 1")
    await page.evaluate("document.querySelector('.expander').focus()")

    await page.press("Enter", "\r")

    await page.wait_for("document.querySelector('.detail tbody')")


async def test_columns_sort_and_tell_it(console: Console) -> None:
    page = console.page
    first = "document.querySelector('#endpoints-rows th').textContent"
    assert "pod-0" in await page.evaluate(first)

    await page.evaluate("document.querySelector('#endpoints-head button').click()")

    assert "pod-2" in await page.evaluate(first)
    order = "document.querySelector('#endpoints-head th').getAttribute('aria-sort')"
    assert await page.evaluate(order) == "descending"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_stands_out_from_what_is_behind_it(console: Console, scheme: str) -> None:
    page = console.page
    await page.prefer(scheme)
    await send(console, "request-1")
    await page.wait_for(f"{DECISIONS} === 1")
    await page.evaluate("document.querySelector('.expander').click()")
    await page.wait_for("document.querySelector('.detail td[data-heat=\"5\"]')")
    await page.evaluate(
        "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
    )

    ratios = await page.evaluate(CONTRAST)

    assert len(ratios) > 60
    assert [each for each in ratios if each[1] < 4.5] == []


@pytest.mark.parametrize(
    ("stop", "go_on"),
    [
        ("document.querySelector('#pause').click()", "document.querySelector('#pause').click()"),
        (HIDDEN % "true", HIDDEN % "false"),
    ],
    ids=["paused", "hidden"],
)
async def test_it_asks_nothing_while_it_is_paused_or_hidden(
    console: Console, stop: str, go_on: str
) -> None:
    page = console.page
    await page.evaluate(stop)
    await page.evaluate(AWHILE)  # a round that is under way ends
    asked = len(page.requests)

    await send(console, "request-1")
    await page.evaluate(AWHILE)

    assert len(page.requests) == asked
    await page.evaluate(go_on)
    await page.wait_for(f"{DECISIONS} === 1")


def endpoint(name: str, **changes: object) -> EndpointPart:
    values: dict[str, Any] = {
        "address": f"{name}:8000",
        "name": name,
        "namespace": "default",
        "labels": {},
        "in_flight": 0,
        "recent_picks": 0,
        "metrics_age_seconds": 0.02,
        **changes,
    }
    return EndpointPart(**values)


async def show(page: Page, pool: PoolView) -> None:
    """Let the page believe that the picker said so, and wait until it shows it."""
    text = msgspec.json.encode(pool).decode()
    await page.evaluate(
        "(() => { const ask = window.fetch; window.fetch = (path, options) =>"
        f" path === 'pool' ? Promise.resolve(new Response({text!r})) : ask(path, options); }})()"
    )
    await page.wait_for(f"{ROWS} === {len(pool.endpoints)}")


async def test_endpoints_tell_their_state_and_are_the_darker_the_fuller(console: Console) -> None:
    page = console.page
    pool = PoolView(
        pool=None,
        failure_mode_in_force="FailOpen",
        ready=True,
        not_ready_reasons=[],
        endpoints=[
            endpoint("a", in_flight=8, waiting=3, kv_cache_usage=0.5, prefix_share=0.25),
            endpoint("b", in_flight=1, is_stale=True, metrics_age_seconds=7.0),
            endpoint("c", is_ejected=True, is_stale=True, kv_cache_usage=1.0),
            endpoint("d", is_stale=True, metrics_age_seconds=None),
        ],
    )

    await show(page, pool)

    cells = await page.evaluate(
        "[...document.querySelectorAll('#endpoints-rows tr')].map((row) =>"
        " [...row.children].map((each) => [each.textContent, each.dataset.heat ?? '']))"
    )
    columns = {"state": 2, "in flight": 3, "queue": 6, "kv cache": 7, "prefix share": 8, "heard": 9}
    seen = {name: [row[at] for row in cells] for name, at in columns.items()}
    assert [text for text, _ in seen["state"]] == ["ok", "stale", "ejected, stale", "stale"]
    assert seen["in flight"] == [["8", "5"], ["1", "1"], ["0", "0"], ["0", "0"]]
    assert seen["queue"] == [["3", "5"], ["0", "0"], ["0", "0"], ["\N{EN DASH}", "0"]]
    assert [heat for _, heat in seen["kv cache"]] == ["3", "0", "5", "0"]
    assert seen["prefix share"][0] == ["25 %", "5"]
    assert [text for text, _ in seen["heard"]] == [
        "20.0 ms ago",
        "7.0 s ago",
        "20.0 ms ago",
        "never",
    ]
    assert await page.text("#endpoints-count") == "4 endpoints, 1 ejected, 3 stale"


async def test_what_is_wrong_with_the_pool_is_told_in_words(console: Console) -> None:
    page = console.page
    pool = PoolView(
        pool=None,
        failure_mode_in_force="FailOpen",
        ready=False,
        not_ready_reasons=["the pool is gone", "shutting down"],
        problems=["spec.targetPorts: must not be empty"],
        endpoints=[],
        pods_without_endpoint=[PodPart(name="a", namespace="default", reason="not ready")],
    )

    await show(page, pool)

    assert await page.text("#readiness") == "Not ready: the pool is gone, shutting down"
    assert await page.text("#problems") == "spec.targetPorts: must not be empty"
    assert await page.text("#pods-summary") == "1 pod without an endpoint"
    assert await page.text("#pods-list") == "default/a: not ready"
    assert "no pool" in await page.text("#pool")


async def test_it_tells_why_the_picker_is_not_ready_and_that_it_is_gone(tmp_path: Path) -> None:
    async with console_of(tmp_path, 1, drain_timeout=60.0) as console:
        stopping = asyncio.create_task(console.application.stop())
        text = "document.querySelector('#readiness').textContent"
        await console.page.wait_for(f"{text} === 'Not ready: shutting down'")

        console.application.stop_at_once()
        await stopping

        gone = "document.querySelector('#connection').textContent.startsWith('No answer since ')"
        await console.page.wait_for(gone)
        console.page.complaints.clear()  # Chromium tells of connections that are refused


async def test_a_rejection_tells_its_status_and_reason(console: Console) -> None:
    page = console.page
    async with gateway_client(console.ports.grpc) as client:
        exchange = client.exchange()
        subset = {"x-gateway-destination-endpoint-subset": "10.9.9.9:8000"}
        await exchange.post(BODY, metadata={"envoy.lb.subset_hint": subset})
        assert (await exchange.answer()).status == 503
    await page.wait_for(f"{DECISIONS} === 1")

    await page.evaluate("document.querySelector('.expander').click()")

    await page.wait_for(
        "document.querySelector('.detail').textContent.includes('Rejected with 503')"
    )
    assert "epp_rejected_no_endpoints" in await page.text(".detail")


async def test_of_a_thousand_endpoints_a_hundred_rows_are_made(tmp_path: Path) -> None:
    async with console_of(tmp_path, 1000) as console:
        page = console.page
        assert await page.evaluate(ROWS) == 100
        assert (await page.text("#endpoints-count")).startswith("1000 endpoints")

        await page.evaluate("document.querySelector('#more').click()")
        assert await page.evaluate(ROWS) == 200

        await page.evaluate(
            "(() => { const filter = document.querySelector('#filter');"
            " filter.value = 'pod-77'; filter.dispatchEvent(new Event('input')); })()"
        )
        assert await page.evaluate(ROWS) == 11
        assert await page.evaluate("document.querySelector('#more').hidden")


async def test_it_says_that_decisions_are_not_kept(tmp_path: Path) -> None:
    async with console_of(tmp_path, 1, decision_log_size=0) as console:
        text = await console.page.wait_for("document.querySelector('#decisions-count').textContent")

        assert text == "decisions are not kept: --decision-log-size is 0"
        console.page.complaints.clear()  # Chromium tells of every answer from 400 on
