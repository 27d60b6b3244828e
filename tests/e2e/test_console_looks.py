"""What the console shows, in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epp.admin.pool_view import EndpointPart, PodPart, PoolView
from tests.fakes.programs.browser import Page
from tests.fakes.programs.console import (
    BROWSER,
    DECISIONS,
    NO_BROWSER,
    ROWS,
    Console,
    console_of,
    send,
)

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)]
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


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with console_of(tmp_path, 3) as console:
        yield console


async def test_it_shows_the_pool_and_the_configuration_of_a_ready_picker(console: Console) -> None:
    page = console.page

    assert await page.text("#readiness") == "Ready"
    assert "default/pool" in await page.text("#pool")
    assert "FailClose" in await page.text("#pool")
    assert await page.text("#version") != ""
    assert "kind: EndpointPickerConfig" in await page.text("#document")
    assert "10.0.0.2:8000" in await page.text("#endpoints-rows")
    assert await page.evaluate(ROWS) == 3


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


async def test_columns_sort_and_tell_it(console: Console) -> None:
    page = console.page
    first = "document.querySelector('#endpoints-rows th').textContent"
    assert "pod-0" in await page.evaluate(first)

    await page.evaluate("document.querySelector('#endpoints-head button').click()")

    assert "pod-2" in await page.evaluate(first)
    order = "document.querySelector('#endpoints-head th').getAttribute('aria-sort')"
    assert await page.evaluate(order) == "descending"


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
