from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from epp.admin.http_connections import HttpConnection, HttpConnections
from tests.fakes.virtual_time import in_virtual_time

LIFE_SECONDS = 75.0
GET = b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Wire(asyncio.Transport):
    """Takes everything, and tells when the port gave it up."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ended_at: float | None = None

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.ended_at is not None

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self.ended_at is None:
            self.ended_at = asyncio.get_running_loop().time()


def page_of_text() -> web.Application:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    pages = web.Application()
    pages.router.add_get("/page", page)
    return pages


async def arrived(connections: HttpConnections) -> tuple[HttpConnection, Wire]:
    wire = Wire()
    connection = connections.admit()
    connection.connection_made(wire)
    connections.arrived(connection)
    return connection, wire


async def ended(pieces: list[tuple[float, bytes]]) -> Wire:
    """What becomes of a connection on which pieces come, each after a pause."""
    connections = HttpConnections(page_of_text(), LIFE_SECONDS)
    await connections.start()
    connection, wire = await arrived(connections)
    for pause, piece in pieces:
        await asyncio.sleep(pause)
        if wire.ended_at is None:
            connection.data_received(piece)
    await asyncio.sleep(10 * LIFE_SECONDS)
    connection.connection_lost(None)
    await connections.aclose()
    assert connections.count == 0
    return wire


@pytest.mark.parametrize(
    ("pieces", "answers", "end"),
    [
        ([], 0, 75),
        ([(70, GET), (70, GET), (70, GET)], 3, 285),
        ([(70, GET[:9]), (4, GET[9:])], 1, 149),
        ([(1, GET[:-2])] + [(1, b"X-A: b\r\n")] * 80, 0, 75),
        ([(10, GET), (74, GET[:-1])], 1, 85),
    ],
    ids=["silence", "requests", "in two pieces", "a head that trickles in", "half a second one"],
)
def test_a_connection_ends_a_while_after_its_last_whole_head(
    pieces: list[tuple[float, bytes]], answers: int, end: float
) -> None:
    wire = in_virtual_time(ended(pieces))

    assert wire.written.count(b"HTTP/1.1 200 OK") == answers
    assert wire.ended_at == end


def test_a_connection_counts_from_its_arrival_to_its_end() -> None:
    async def counts() -> list[int]:
        connections = HttpConnections(page_of_text(), LIFE_SECONDS)
        await connections.start()
        counted = [connections.count]
        failed = connections.admit()
        counted.append(connections.count)
        connections.arrived(failed)  # its handshake came to nothing
        counted.append(connections.count)
        connection, _ = await arrived(connections)
        counted.append(connections.count)
        connection.connection_lost(None)
        counted.append(connections.count)
        await connections.aclose()
        return counted

    assert in_virtual_time(counts()) == [0, 1, 0, 1, 0]
