from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest

from epp.admin.admin_pages import admin_pages
from epp.admin.http_port import HttpPort
from epp.admin.log_level_pages import LogLevelPages
from epp.admin.pool_view import PoolView
from epp.observability.log_level import LogLevelSwitch
from tests.fakes.logs import logging_as_it_was

LEVELS = ["critical", "error", "warning", "info", "debug", "trace"]
ALLOWED = "must be one of critical, error, warning, info, debug, trace"
CROSS_SITE = {"Sec-Fetch-Site": "cross-site"}


def no_pool() -> PoolView:
    raise AssertionError("nobody asks")


class Port:
    """The admin port with the page, and a client of it."""

    def __init__(self) -> None:
        self.level = LogLevelSwitch("info")
        pages = admin_pages(no_pool, LogLevelPages(self.level))
        self._port = HttpPort(pages, "127.0.0.1", 0, port_flag="--admin-port")
        self.origin = ""
        self.session: aiohttp.ClientSession

    async def __aenter__(self) -> Port:
        self.origin = f"http://127.0.0.1:{await self._port.start()}"
        self.session = aiohttp.ClientSession(self.origin)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.session.close()
        await self._port.stop()

    async def ask(
        self, method: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        call = self.session.request(method, "/log-level", data=body, headers=headers)
        async with call as response:
            return response.status, await response.json()


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    with logging_as_it_was():
        async with Port() as port:
            yield port


async def test_the_level_in_force_is_told_with_those_there_are(port: Port) -> None:
    assert await port.ask("GET") == (
        200,
        {"level": "info", "configured": "info", "levels": LEVELS},
    )


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"debug", "text/plain"),
        (b" DEBUG\n", "application/x-www-form-urlencoded"),
        (b'{"level": "debug"}', "application/json; charset=utf-8"),
    ],
    ids=["text", "as curl sends it", "JSON"],
)
async def test_a_level_that_is_put_is_in_force_until_it_is_deleted(
    port: Port, body: bytes, content_type: str
) -> None:
    put = await port.ask("PUT", body, {"Content-Type": content_type})
    told = await port.ask("GET")
    deleted = await port.ask("DELETE")

    assert put == told == (200, {"level": "debug", "configured": "info", "levels": LEVELS})
    assert deleted == (200, {"level": "info", "configured": "info", "levels": LEVELS})


@pytest.mark.parametrize(
    ("body", "content_type", "problem"),
    [
        (b"loud", "text/plain", f"level: 'loud': {ALLOWED}"),
        (b"", "text/plain", f"level: '': {ALLOWED}"),
        (b"\xff", "text/plain", f"level: '\N{REPLACEMENT CHARACTER}': {ALLOWED}"),
        (b'{"level": "5"}', "application/json", f"level: '5': {ALLOWED}"),
        (b"debug", "application/json", 'the body must be as {"level": "debug"}: '),
        (b'{"level": 5}', "application/json", 'the body must be as {"level": "debug"}: '),
        (b'{"levels": "info"}', "application/json", 'the body must be as {"level": "debug"}: '),
        (b"x" * 300, "text/plain", "the body is longer than the 256 bytes allowed"),
    ],
)
async def test_what_is_no_level_is_refused_with_what_is(
    port: Port, body: bytes, content_type: str, problem: str
) -> None:
    status, page = await port.ask("PUT", body, {"Content-Type": content_type})

    assert status == 400
    assert page["error"].startswith(problem)
    assert port.level.in_force == "info"


async def test_a_body_without_an_end_is_not_read_for_ever(port: Port) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100
            await asyncio.sleep(0)

    status, _ = await port.ask("PUT", endless())

    assert status == 400


@pytest.mark.parametrize(
    "headers",
    [
        CROSS_SITE,
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://example.com"},
        {"Origin": "null"},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_page_of_another_site_changes_nothing(
    port: Port, method: str, headers: dict[str, str]
) -> None:
    port.level.use("debug")

    status, page = await port.ask(method, b"error", headers)

    assert (status, port.level.in_force) == (403, "debug")
    assert page["error"] == f"{method} came from a page of another site; send it without a browser"


async def test_our_own_page_may_change_it(port: Port) -> None:
    by_site = await port.ask("PUT", b"debug", {"Sec-Fetch-Site": "same-origin"})
    by_origin = await port.ask("PUT", b"error", {"Origin": port.origin})

    assert (by_site[1]["level"], by_origin[1]["level"]) == ("debug", "error")


async def test_no_page_of_another_site_starts_a_dry_run(port: Port) -> None:
    call = port.session.post("/decisions/dry-run", json={}, headers=CROSS_SITE)
    async with call as response:
        assert response.status == 403
