"""What the console does, in a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from epp.framework.endpoint import EndpointMetrics
from tests.fakes.logs import logging_as_it_was
from tests.fakes.pickers.applications import BODY, get
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.programs.console import BROWSER, DECISIONS, NO_BROWSER, Console, console_of, send

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)]
MARKUP = "<img src=x onerror=alert(1)>"
SCORES = '.detail table[aria-label^="Scores"]'
LOADS = '.detail table[aria-label^="Load"]'
STEPS = '.detail table[aria-label="Time of each step"]'
AWHILE = "new Promise((resolve) => setTimeout(resolve, 2500))"
HIDDEN = (
    "Object.defineProperty(document, 'hidden', { configurable: true, value: %s });"
    "document.dispatchEvent(new Event('visibilitychange'))"
)


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with console_of(tmp_path, 3) as console:
        yield console


async def test_a_decision_appears_and_tells_its_scores_when_it_is_opened(console: Console) -> None:
    page = console.page
    await send(console, "request-1")
    await page.wait_for(f"{DECISIONS} === 1")

    await page.evaluate("document.querySelector('.expander').click()")
    await page.wait_for(f"document.querySelectorAll('{SCORES} tbody tr').length === 3")

    assert "request-1" in await page.text("#decisions-rows")
    assert "active-request-scorer \N{MULTIPLICATION SIGN} 3" in await page.text(SCORES)
    assert "max-score-picker" in await page.text(STEPS)


async def test_a_decision_tells_what_model_servers_had_reported(console: Console) -> None:
    page = console.page
    first, *_ = console.application.snapshot().endpoints
    first.state.metrics = EndpointMetrics(
        waiting_queue_size=3, running_requests_size=12, kv_cache_usage=0.5, updated_at=1.0
    )
    await send(console, "request-1")
    await page.wait_for(f"{DECISIONS} === 1")

    await page.evaluate("document.querySelector('.expander').click()")
    await page.wait_for(f"document.querySelector('{LOADS}')")

    rows = await page.evaluate(
        f"[...document.querySelectorAll('{LOADS} tr')].map((row) =>"
        " [...row.children].map((each) => each.textContent))"
    )
    loads = {address: cells for address, *cells in rows}
    assert loads["Endpoint"] == ["Waiting", "Running", "KV cache", "Age"]
    assert loads[first.address][:3] == ["3", "12", "50 %"]
    assert [row[-1] for row in rows].count("never heard of") == 2


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


async def test_characters_that_nobody_sees_are_shown(console: Console) -> None:
    page = console.page
    await send(console, "\u202eone", "two\u200b")
    await page.wait_for(f"{DECISIONS} === 1")

    await page.evaluate("document.querySelector('.expander').click()")
    await page.wait_for("document.querySelector('.detail tbody')")

    assert "request \\u202eone \N{MIDDLE DOT}" in await page.text(".detail")
    cells = "[...document.querySelectorAll('#decisions-rows td.name')].map((each) => each.title)"
    assert await page.evaluate(cells) == ["\\u202eone", "two\\u200b"]
    assert "\n" in await page.text("#document")


async def test_of_an_id_that_comes_again_and_again_no_other_decision_is_told(
    console: Console,
) -> None:
    page = console.page
    for number in range(9):
        await send(console, "again", f"m{number}")
    await page.wait_for(f"{DECISIONS} === 9")

    await page.evaluate("document.querySelectorAll('.expander').forEach((each) => each.click())")
    await page.wait_for(f"document.querySelectorAll('{SCORES}').length === 8")

    told = "document.querySelector('#decisions-rows').lastChild.textContent"
    await page.wait_for(f"{told} === 'Only the last 8 decisions of an id are told.'")


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
        "log-level",
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


async def test_the_log_level_is_shown_and_changed(console: Console) -> None:
    page = console.page
    level = "document.querySelector('#log-level').value"
    note = "document.querySelector('#log-level-note').textContent"
    choose = (
        "(() => { const select = document.querySelector('#log-level');"
        " select.value = '%s'; select.dispatchEvent(new Event('change')); })()"
    )
    await page.wait_for(f"{level} === 'info'")

    with logging_as_it_was():
        await page.evaluate(choose % "debug")
        await page.wait_for(f"{note} === 'configured: info'")
        told = await (await get(console.ports.admin, "/log-level")).json()
        await page.evaluate(choose % "info")
        await page.wait_for(f"{note} === ''")

    assert told["level"] == "debug"
    assert await page.evaluate(level) == "info"


async def test_a_log_level_that_is_not_taken_is_put_back_and_told(console: Console) -> None:
    page = console.page
    await page.wait_for("document.querySelector('#log-level').value === 'info'")

    await page.evaluate(
        "(() => { const select = document.querySelector('#log-level');"
        " select.append(new Option('loud')); select.value = 'loud';"
        " select.dispatchEvent(new Event('change')); })()"
    )

    note = "document.querySelector('#log-level-note').textContent"
    text = await page.wait_for(f"{note}.startsWith('not changed') && {note}")
    assert text.startswith("not changed: level: 'loud': must be one of critical, ")
    assert await page.evaluate("document.querySelector('#log-level').value") == "info"
    page.complaints.clear()  # Chromium tells of every answer from 400 on


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


async def test_it_says_that_decisions_are_not_kept(tmp_path: Path) -> None:
    async with console_of(tmp_path, 1, decision_log_size=0) as console:
        text = await console.page.wait_for("document.querySelector('#decisions-count').textContent")

        assert text == "decisions are not kept: --decision-log-size is 0"
        console.page.complaints.clear()  # Chromium tells of every answer from 400 on
