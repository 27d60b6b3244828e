"""What peers of the metrics port and of the admin port may not do for ever, or all at once."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from epp.admin.admin_pages import admin_pages
from epp.admin.http_port import HttpLimits, HttpPort
from epp.admin.http_tls import HttpTls
from epp.admin.metrics_pages import metrics_pages
from epp.admin.pool_view import PoolView
from epp.observability.metrics import Metrics
from tests.fakes.certificates import new_pair, write_pair

GET = b"GET /pool HTTP/1.1\r\nHost: localhost\r\n"
HEALTHZ = GET.replace(b"/pool", b"/healthz")
HELLO_BEGUN = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def no_pool() -> PoolView:
    raise NotImplementedError


def metrics_port() -> web.Application:
    return metrics_pages(Metrics(), dict)


def admin_port() -> web.Application:
    return admin_pages(no_pool)


both_ports = pytest.mark.parametrize("pages", [metrics_port, admin_port])
Pages = Callable[[], web.Application]


@asynccontextmanager
async def serving(
    pages: web.Application,
    limits: HttpLimits | None = None,
    tls: HttpTls | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[int]:
    port = HttpPort(pages, host, 0, port_flag="--a-port", limits=limits, tls=tls)
    number = await port.start()
    try:
        yield number
    finally:
        await port.stop()


@asynccontextmanager
async def connected(port: int, said: bytes = b"") -> AsyncIterator[socket.socket]:
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        # Small, so that an answer that is not read stays with the port.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, said)
        yield client


async def read_to_the_end(client: socket.socket) -> bytes:
    received = b""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionResetError):
        while part := await loop.sock_recv(client, 65_536):
            received += part
    return received


@both_ports
async def test_over_the_limit_the_connection_that_was_silent_longest_makes_room(
    pages: Pages,
) -> None:
    loop = asyncio.get_running_loop()
    limits = HttpLimits(max_connections=2)
    with capture_logs() as logs:
        async with (
            serving(pages(), limits) as port,
            connected(port) as first,
            connected(port) as second,
        ):
            await loop.sock_sendall(first, HEALTHZ + b"\r\n")
            assert (await loop.sock_recv(first, 65_536)).startswith(b"HTTP/1.1 ")

            async with connected(port, HEALTHZ + b"Connection: close\r\n\r\n") as third:
                assert (await read_to_the_end(third)).startswith(b"HTTP/1.1 ")
            assert await read_to_the_end(second) == b""

            await loop.sock_sendall(first, HEALTHZ + b"Connection: close\r\n\r\n")
            assert b"HTTP/1.1 " in await read_to_the_end(first)
    (line,) = [line for line in logs if line["event"].startswith("too many connections")]
    assert (line["port"], line["limit"]) == (port, 2)


@both_ports
async def test_any_number_of_silent_connections_shuts_nobody_out(pages: Pages) -> None:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(pages(), HttpLimits(max_connections=5)))
        silent = [await stack.enter_async_context(connected(port)) for _ in range(50)]

        async with connected(port, HEALTHZ + b"Connection: close\r\n\r\n") as scrape:
            assert (await read_to_the_end(scrape)).startswith(b"HTTP/1.1 ")

        for each in silent[:44]:
            assert await read_to_the_end(each) == b""


@pytest.mark.parametrize("length", [b"Content-Length: 9999999999", b"Transfer-Encoding: chunked"])
async def test_a_body_that_goes_on_after_the_answer_is_not_read_for_long(length: bytes) -> None:
    loop = asyncio.get_running_loop()
    part = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
    async with (
        serving(metrics_port()) as port,
        connected(port, b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + length + b"\r\n\r\n") as client,
    ):
        assert (await loop.sock_recv(client, 65_536)).startswith(b"HTTP/1.1 200 ")

        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            await loop.sock_sendall(client, part * 1000)


async def test_a_short_rest_of_a_body_after_the_answer_keeps_the_connection() -> None:
    loop = asyncio.get_running_loop()
    head = b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
    async with serving(metrics_port()) as port, connected(port, head) as client:
        for _ in range(5):
            assert (await loop.sock_recv(client, 65_536)).startswith(b"HTTP/1.1 200 ")

            await loop.sock_sendall(client, b"a" * 100_000 + head)


@both_ports
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET",
        GET + b"X-A: ",
        GET + b"Content-Length: 9\r\n\r\nabc",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2,
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    ],
    ids=["nothing", "a word", "half a head", "half a body", "nothing more", "an upgrade"],
)
async def test_a_connection_that_says_no_more_is_ended(pages: Pages, said: bytes) -> None:
    async with (
        serving(pages(), HttpLimits(life_seconds=0.1)) as port,
        connected(port, said) as client,
    ):
        await read_to_the_end(client)


async def test_a_head_that_trickles_in_has_an_end() -> None:
    loop = asyncio.get_running_loop()
    async with (
        serving(metrics_port(), HttpLimits(life_seconds=0.3)) as port,
        connected(port, b"GET / HTTP/1.1\r\n") as client,
    ):

        async def trickle() -> None:
            while True:
                await loop.sock_sendall(client, b"X-A: b\r\n")
                await asyncio.sleep(0.01)

        with pytest.raises((ConnectionError, BrokenPipeError)):
            await trickle()


async def test_an_answer_that_is_not_read_is_given_up() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"a" * 65_536)
        finally:
            given_up.set()

    given_up = asyncio.Event()
    pages = web.Application()
    pages.router.add_get("/pool", endless)
    async with (
        serving(pages, HttpLimits(life_seconds=0.2, max_connections=1)) as port,
        connected(port, GET + b"\r\n"),
    ):
        await given_up.wait()


@pytest.mark.parametrize("begun", [b"", HELLO_BEGUN], ids=["nothing", "half a hello"])
async def test_a_handshake_has_to_end_and_makes_room_as_a_connection_does(
    tmp_path: Path, begun: bytes
) -> None:
    write_pair(tmp_path, new_pair())
    limits = HttpLimits(handshake_seconds=0.2, max_connections=1)
    async with serving(metrics_port(), limits, HttpTls(cert_dir=tmp_path)) as port:
        async with connected(port, begun) as only:
            await read_to_the_end(only)
        async with connected(port) as third:
            third.shutdown(socket.SHUT_WR)
            await read_to_the_end(third)
    patient = HttpLimits(handshake_seconds=60, max_connections=1)
    async with (
        serving(metrics_port(), patient, HttpTls(cert_dir=tmp_path)) as port,
        connected(port, begun) as first,
        connected(port),
    ):
        assert await read_to_the_end(first) == b""


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", ""])
async def test_a_name_that_points_to_loopback_is_refused_on_whatever_address_it_listens(
    host: str,
) -> None:
    request = b"GET /pool HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    async with serving(admin_port(), host=host) as port, connected(port, request) as client:
        answer = await read_to_the_end(client)

    assert answer.startswith(b"HTTP/1.1 421 ")


NO_HTTP = {
    "no method": b"S3CRET<b>\r\n\r\n",
    "a large header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"S3CRET" * 9000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + b"S3CRET: b\r\n" * 200 + b"\r\n",
    "a control character": b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: S3CRET\0\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: S3CRET, chunked\r\n\r\n0\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: S3CRET\r\nHost: b\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@both_ports
@pytest.mark.parametrize("said", NO_HTTP.values(), ids=NO_HTTP)
async def test_what_is_no_http_is_neither_sent_back_nor_logged(
    pages: Pages, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), capture_logs() as logs:
        async with serving(pages()) as port, connected(port, said) as client:
            answer = await read_to_the_end(client)

    assert answer.partition(b"\r\n")[0] == b"HTTP/1.0 400 Bad Request"
    assert answer.endswith(b"\r\n\r\n400: Bad Request")
    assert b"X-Content-Type-Options: nosniff" in answer
    assert b"S3CRET" not in answer
    assert not caplog.records
    assert "S3CRET" not in repr(logs)


@both_ports
@pytest.mark.parametrize("expected", ["S3CRET", "", "100-continue, S3CRET", "\udcff"], ids=ascii)
async def test_an_expectation_nobody_knows_is_refused_and_not_sent_back(
    pages: Pages, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = GET + b"Expect: " + expected.encode(errors="surrogateescape") + b"\r\n\r\n"
    async with (
        serving(pages(), HttpLimits(life_seconds=0.1)) as port,
        connected(port, said) as client,
    ):
        answer = await read_to_the_end(client)

    assert answer.startswith(b"HTTP/1.1 417 ")
    assert b"X-Content-Type-Options: nosniff" in answer
    assert b"S3CRET" not in answer
    assert not caplog.records


async def test_a_client_that_waits_for_continue_and_leaves_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    said = b"POST /metrics HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    async with serving(metrics_port()) as port:
        for _ in range(20):
            async with connected(port, said) as client:
                client.shutdown(socket.SHUT_RDWR)
        async with connected(port, said) as client:
            assert (await loop.sock_recv(client, 100)).startswith(b"HTTP/1.1 100 Continue\r\n")

    assert not caplog.records


async def test_a_body_is_taken_as_it_came_rather_than_decompressed() -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    pages = web.Application()
    pages.router.add_post("/echo", echo)
    body = gzip.compress(b"a" * 1000)
    head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    async with serving(pages) as port, connected(port, head.encode() + body) as client:
        answer = await read_to_the_end(client)

    assert answer.partition(b"\r\n\r\n")[2] == body


BROWSER_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Server": "epp",
}


@both_ports
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "TRACE", "PUT", "SEARCH"])
@pytest.mark.parametrize("path", ["/healthz", "/<script>", "*", "/%00", "/a/../../etc/passwd"])
async def test_every_answer_tells_browsers_what_it_is(pages: Pages, method: str, path: str) -> None:
    request = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with serving(pages()) as port, connected(port, request.encode()) as client:
        answer = await read_to_the_end(client)

    head = answer.partition(b"\r\n\r\n")[0].decode()
    assert int(head.split(" ")[1]) in (200, 400, 404, 405)
    for name, value in BROWSER_HEADERS.items():
        assert f"{name}: {value}" in head.split("\r\n")
    assert "default-src 'none'" in head
    assert "frame-ancestors 'none'" in head
    assert "script>" not in answer.decode()
    assert "aiohttp" not in head
    assert "access-control-" not in head.lower()
