from __future__ import annotations

import re
from collections.abc import AsyncIterator

import aiohttp
import pytest

from epp.admin.admin_pages import admin_pages
from epp.admin.console_pages import FOLDER, ConfigurationView, ConsolePages
from epp.admin.http_port import HttpPort
from epp.admin.pool_view import PoolView

CONFIGURATION = ConfigurationView(
    version="1.2.3",
    source="built-in default",
    profiles=["profile default: queue-scorer x2"],
    document="kind: EndpointPickerConfig\n",
    problem=None,
)
EMPTY = PoolView(
    pool=None, failure_mode_in_force="FailClose", ready=True, not_ready_reasons=[], endpoints=[]
)
FILES = sorted(path.name for path in FOLDER.iterdir())


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    pages = admin_pages(lambda: EMPTY, ConsolePages(lambda: CONFIGURATION))
    server = HttpPort(pages, "127.0.0.1", 0, port_flag="--admin-port")
    port = await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield session
    await server.stop()


async def test_the_console_is_at_the_root(client: aiohttp.ClientSession) -> None:
    async with client.get("/") as response:
        text = await response.text()

    assert response.status == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert text == (FOLDER / "index.html").read_text()


@pytest.mark.parametrize("name", [name for name in FILES if name != "index.html"])
async def test_its_files_are_served_with_their_types(
    client: aiohttp.ClientSession, name: str
) -> None:
    async with client.get(f"/console/{name}") as response:
        body = await response.read()

    types = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    assert response.content_type == types[name.rsplit(".")[-1]]
    assert body == (FOLDER / name).read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "/console/",
        "/console/index.html",
        "/console/none.js",
        "/console/..%2f__init__.py",
        "/console/%2e%2e/console_pages.py",
    ],
)
async def test_nothing_else_is_served(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as response:
        assert response.status == 404


@pytest.mark.parametrize("path", ["/", "/console/console.js", "/pool", "/configuration", "/none"])
async def test_browsers_load_nothing_from_elsewhere_and_run_nothing_inline(
    client: aiohttp.ClientSession, path: str
) -> None:
    async with client.get(path) as response:
        policy = response.headers["Content-Security-Policy"].split("; ")

    assert {
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    } <= set(policy)
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/console/console.js", "/pool", "/configuration", "/none"])
async def test_head_tells_what_get_would_without_the_page(
    client: aiohttp.ClientSession, path: str
) -> None:
    async with client.get(path) as asked, client.head(path) as response:
        assert await response.read() == b""

    assert response.status == asked.status
    for name in ("Content-Type", "Content-Length", "Content-Security-Policy"):
        assert response.headers[name] == asked.headers[name]


async def test_the_configuration_in_force_is_told_as_json(client: aiohttp.ClientSession) -> None:
    async with client.get("/configuration") as response:
        document = await response.json()

    assert document == {
        "version": "1.2.3",
        "source": "built-in default",
        "profiles": ["profile default: queue-scorer x2"],
        "document": "kind: EndpointPickerConfig\n",
        "problem": None,
    }


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9091", "127.0.0.1:9091", "[::1]:9091"])
async def test_who_asks_an_address_or_localhost_is_answered(
    client: aiohttp.ClientSession, host: str
) -> None:
    async with client.get("/pool", headers={"Host": host}) as response:
        assert response.status == 200


@pytest.mark.parametrize("path", ["/", "/pool", "/configuration", "/none"])
@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:9091", "localhost.example"])
async def test_a_name_that_was_made_to_point_to_loopback_is_refused(
    client: aiohttp.ClientSession, host: str, path: str
) -> None:
    async with client.get(path, headers={"Host": host}) as response:
        document = await response.json()

    assert response.status == 421
    assert document == {"error": f"host: {host!r}: must be localhost or an IP address"}


def test_the_page_has_no_inline_code_and_no_address_of_elsewhere() -> None:
    texts = {name: (FOLDER / name).read_text() for name in FILES}

    assert not re.search(r"\son\w+=|style=|<style", texts["index.html"])
    assert re.findall(r"<script[^>]*>(?!</script>)", texts["index.html"]) == []
    for name, text in texts.items():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_what_comes_from_outside_can_not_become_markup(name: str) -> None:
    text = (FOLDER / name).read_text()

    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text)
    assert set(re.findall(r'from "\./([^"]+)"', text)) <= set(FILES)
