from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from epp.data_layer.page import Page, PageReader
from epp.data_layer.pages import Pages
from epp.data_layer.timetable import Timetable
from epp.framework.data_layer import HttpTarget
from tests.fakes import authorities
from tests.fakes.page_server import PageServer, page_server

MOST_CONNECTIONS = 3


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class ReadPage:
    """One page, and what was told of it."""

    def __init__(self, pages: Pages, target: HttpTarget) -> None:
        self._told: asyncio.Queue[bytes | str] = asyncio.Queue()
        reader = PageReader(page=self._told.put_nowait, failure=self._told.put_nowait)
        self.page: Page = pages.open(target, reader)

    async def read(self) -> bytes | str:
        """The page as bytes, or why there is none as text."""
        self.page.fetch()
        return await self.outcome()

    async def outcome(self) -> bytes | str:
        """The same, of what has been asked for already."""
        async with asyncio.timeout(20):
            return await self._told.get()

    @property
    def is_told_of(self) -> bool:
        return not self._told.empty()


@pytest.fixture
async def server() -> AsyncIterator[PageServer]:
    async with page_server() as server:
        yield server


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    pages = Pages(
        Timetable(time.monotonic),
        time.monotonic,
        timeout_seconds=20,
        max_connections=MOST_CONNECTIONS,
    )
    yield pages
    await pages.aclose()


OpenPage = Callable[..., ReadPage]


@pytest.fixture
async def open_page(pages: Pages, server: PageServer) -> AsyncIterator[OpenPage]:
    """Opens pages of the server."""
    opened: list[ReadPage] = []

    def open_(**changes: object) -> ReadPage:
        values = {"host": "127.0.0.1", "port": server.port, "path": "/metrics"} | changes
        opened.append(ReadPage(pages, HttpTarget(**values)))  # type: ignore[arg-type] # a test's
        return opened[-1]

    yield open_
    for each in opened:
        each.page.close()


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority, and files of two certificates it has signed."""

    certificate: Path
    server: tuple[Path, Path]
    client: tuple[Path, Path]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("authority")
    issuer = authorities.Authority("authority")
    path = folder / "ca.crt"
    path.write_bytes(issuer.pem)

    def pair(name: str) -> tuple[Path, Path]:
        issued = issuer.issue(name, address="127.0.0.1")
        files = folder / f"{name}.crt", folder / f"{name}.key"
        files[0].write_bytes(issued.chain)
        files[1].write_bytes(issued.key)
        return files

    return Authority(path, pair("server"), pair("client"))
