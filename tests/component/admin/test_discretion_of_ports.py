"""Nothing of whoever asks the HTTP ports is in the log, whatever they send."""

from __future__ import annotations

import asyncio
import io

import pytest

from epp.admin.admin_pages import admin_pages
from epp.admin.http_port import HttpPort
from epp.admin.pool_view import PoolView
from epp.observability.logging import LogFormat, configure_logging
from tests.fakes.logs import logging_as_it_was

SECRET = "s3cr3t"
TOKEN = f"Authorization: Bearer {SECRET}\r\n"
ASKED = {
    "a page that fails": f"GET /pool?{SECRET} HTTP/1.1\r\nHost: localhost\r\n{TOKEN}\r\n",
    "no page": f"GET /{SECRET} HTTP/1.1\r\nHost: localhost\r\n{TOKEN}\r\n",
    "no host of ours": f"GET /pool HTTP/1.1\r\nHost: {SECRET}\r\n{TOKEN}\r\n",
    "no HTTP": f"{SECRET}\r\n\r\n",
    "no header": f"GET /pool HTTP/1.1\r\nHost: localhost\r\n{SECRET}\r\n\r\n",
    "no number": f"GET /pool HTTP/1.1\r\nHost: localhost\r\nContent-Length: {SECRET}\r\n\r\n",
    "a chunk that is none": (
        f"POST /pool HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n"
    ),
    "a long header": f"GET /pool HTTP/1.1\r\nHost: localhost\r\nX-A: {SECRET * 5000}\r\n\r\n",
}


def broken() -> PoolView:
    raise ValueError(SECRET)


@pytest.mark.parametrize("log_format", ["json", "console"])
async def test_what_is_asked_is_in_no_line(log_format: LogFormat) -> None:
    stream = io.StringIO()
    with logging_as_it_was():
        configure_logging("trace", log_format, stream)
        port = HttpPort(admin_pages(broken), "127.0.0.1", 0, port_flag="--admin-port")
        number = await port.start()
        for asked in ASKED.values():
            await ask(number, asked.encode())
        await port.stop()

    assert "ValueError" in stream.getvalue(), "a page that fails is told"
    assert [line for line in stream.getvalue().splitlines() if SECRET in line] == []


async def ask(port: int, request: bytes) -> None:
    """Send it, and read until nothing more comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    await reader.read()
    writer.close()
    await writer.wait_closed()
