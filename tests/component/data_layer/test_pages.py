from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from epp.data_layer.connection_budget import REFUSED
from epp.data_layer.http_head import MAX_BODY_BYTES
from epp.data_layer.pages import Pages
from epp.framework.data_layer import HttpTarget
from tests.component.data_layer.conftest import MOST_CONNECTIONS, Authority, OpenPage, ReadPage
from tests.fakes.eventually import eventually
from tests.fakes.page_server import PageServer, answer, chunked, page_server

BIG = b"line 1\n" * 100_000


@pytest.mark.parametrize(
    "reply",
    [answer(b"page"), chunked(b"pa", b"ge"), b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"page")],
    ids=["length", "chunked", "interim"],
)
async def test_one_connection_brings_page_after_page(
    server: PageServer, open_page: OpenPage, reply: bytes
) -> None:
    server.reply = reply
    page = open_page()

    assert [await page.read() for _ in range(5)] == [b"page"] * 5
    assert server.connections == 1
    assert len(server.requests) == 5


async def test_the_request_asks_for_plain_text(server: PageServer, open_page: OpenPage) -> None:
    await open_page(path="/metrics?x=1").read()

    lines = server.requests[0].decode().lower().split("\r\n")
    assert lines[0] == "get /metrics?x=1 http/1.1"
    assert f"host: 127.0.0.1:{server.port}" in lines
    assert "accept-encoding: identity" in lines
    assert any(line.startswith("accept: text/plain") for line in lines)


@pytest.mark.parametrize("reply", [answer(BIG), chunked(*[BIG[i::7] for i in range(7)])])
async def test_large_pages_come_whole(
    server: PageServer, open_page: OpenPage, reply: bytes
) -> None:
    server.reply = reply

    page = await open_page().read()

    assert isinstance(page, bytes)
    assert len(page) == len(BIG)


async def test_a_server_that_closes_after_each_answer_is_connected_to_again(
    server: PageServer, open_page: OpenPage
) -> None:
    server.reply, server.closes = answer(b"page", "200 OK", "Connection: close"), True
    page = open_page()

    assert [await page.read() for _ in range(3)] == [b"page"] * 3
    assert server.connections == 3


async def test_a_page_may_end_with_the_connection(server: PageServer, open_page: OpenPage) -> None:
    server.reply, server.closes = b"HTTP/1.0 200 OK\r\n\r\n" + BIG, True
    page = open_page()

    assert await page.read() == BIG
    assert await page.read() == BIG


async def test_a_connection_that_the_server_gave_up_is_replaced_at_once(
    server: PageServer, open_page: OpenPage
) -> None:
    page = open_page()
    await page.read()

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.behaviour = None
        writer.transport.abort()

    server.behaviour = hang_up

    assert await page.read() == b"waiting 1\nkv 0.5"
    assert server.connections == 2
    assert len(server.requests) == 3


async def test_a_request_is_repeated_only_once(server: PageServer, open_page: OpenPage) -> None:
    page = open_page()
    await page.read()

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server.behaviour = hang_up

    assert isinstance(await page.read(), str)
    assert len(server.requests) == 3


async def test_a_half_closed_connection_is_replaced(
    server: PageServer, open_page: OpenPage
) -> None:
    page = open_page()

    async def answer_and_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"page"))
        writer.write_eof()

    server.behaviour = answer_and_end

    assert await page.read() == b"page"
    assert await page.read() == b"page"


async def test_an_answer_that_breaks_off_is_a_failure(
    server: PageServer, open_page: OpenPage
) -> None:
    server.reply, server.closes = answer(b"page")[:-1], True

    assert await open_page().read() == "the server closed the connection"
    assert len(server.requests) == 1


async def test_any_status_but_200_is_a_failure_and_the_connection_stays(
    server: PageServer, open_page: OpenPage
) -> None:
    page = open_page()
    server.reply = answer(b"busy", "503 Service Unavailable")
    assert await page.read() == "HTTP status 503"
    server.reply = answer(b"page")
    assert await page.read() == b"page"

    assert server.connections == 1


async def test_nobody_listens(open_page: OpenPage) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        page = open_page(port=taken.getsockname()[1])

        assert await page.read() == "connection refused"
        assert await page.read() == "connection refused"


async def test_a_page_that_is_too_large_is_a_failure(
    server: PageServer, open_page: OpenPage
) -> None:
    server.reply = b"HTTP/1.1 200 OK\r\n\r\n" + bytes(MAX_BODY_BYTES + 1)

    assert await open_page().read() == f"more than {MAX_BODY_BYTES} bytes of body"


async def test_what_comes_without_a_question_is_no_answer(
    server: PageServer, open_page: OpenPage
) -> None:
    page = open_page()
    server.reply = answer(b"page") + answer(b"forged")

    assert await page.read() == b"page"
    server.reply = answer(b"next")
    assert await page.read() == b"next"
    assert server.connections == 2


async def test_bytes_that_come_late_end_the_connection(
    server: PageServer, open_page: OpenPage
) -> None:
    page = open_page()
    writers: list[asyncio.StreamWriter] = []

    async def remember(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(answer(b"page"))

    server.behaviour = remember
    await page.read()
    writers[0].write(answer(b"forged"))
    await eventually(lambda: server.open_connections == 0)

    assert await page.read() == b"page"


async def test_a_compressed_page_is_read_completely_from_then_on(
    server: PageServer, open_page: OpenPage
) -> None:
    server.reply = answer(gzip.compress(b"page"), "200 OK", "Content-Encoding: gzip")
    page = open_page()

    assert await page.read() == b"page"
    assert await page.read() == b"page"
    assert len(server.requests) == 3  # raw once, then completely


async def test_garbage_is_a_failure_and_then_tried_raw_again(
    server: PageServer, open_page: OpenPage
) -> None:
    server.reply, server.closes = b"SSH-2.0-OpenSSH_9.6\r\n", True
    page = open_page()

    assert isinstance(await page.read(), str)
    server.reply, server.closes = answer(b"page"), False
    before = len(server.requests)
    assert await page.read() == b"page"
    assert b"Accept-Encoding: identity" in server.requests[before]


async def test_a_redirect_to_the_same_server_is_followed(
    server: PageServer, open_page: OpenPage
) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.requests[-1].startswith(b"GET /metrics/ "):
            writer.write(answer(b"page"))
        else:
            writer.write(answer(b"", "307 Temporary Redirect", "Location: /metrics/"))

    server.behaviour = redirect

    assert await open_page().read() == b"page"


async def test_a_redirect_to_another_server_is_not(server: PageServer, open_page: OpenPage) -> None:
    async with page_server() as other:
        location = f"Location: http://127.0.0.1:{other.port}/metrics"
        server.reply = answer(b"", "307 Temporary Redirect", location)

        assert await open_page().read() == "redirected to another server"
        assert other.requests == []


async def test_a_redirect_in_circles_ends(server: PageServer, open_page: OpenPage) -> None:
    server.reply = answer(b"", "302 Found", "Location: /metrics")

    assert await open_page().read() == "redirected more than 3 times"


@pytest.mark.parametrize(
    "reply",
    [
        b"a secret\r\n",
        b"HTTP/1.1 200 OK\r\na secret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na secret\r\n",
    ],
    ids=["status", "header", "chunk"],
)
async def test_of_what_is_no_answer_nothing_is_quoted(
    server: PageServer, open_page: OpenPage, reply: bytes
) -> None:
    server.reply, server.closes = reply, True

    failure = await open_page().read()

    assert isinstance(failure, str)
    assert "secret" not in failure


async def test_a_path_that_must_be_quoted_is_asked_for_completely(
    server: PageServer, open_page: OpenPage
) -> None:
    assert await open_page(path="/my metrics").read() == b"waiting 1\nkv 0.5"
    assert server.requests[0].startswith(b"GET /my%20metrics HTTP/1.1\r\n")


@pytest.mark.parametrize("is_hung", [True, False], ids=["hung", "trickling"])
async def test_a_request_that_is_given_up_is_told_of_no_more(
    server: PageServer, open_page: OpenPage, is_hung: bool
) -> None:
    async def hesitate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not is_hung:
            writer.write(answer(BIG)[:1000])
        await reader.read()

    server.behaviour = hesitate
    page = open_page()
    page.page.fetch()
    await eventually(lambda: len(server.requests) == 1)
    page.page.abort()
    await eventually(lambda: server.open_connections == 0)
    server.behaviour = None

    assert not page.is_told_of
    assert await page.read() == b"waiting 1\nkv 0.5"


async def test_one_that_is_given_up_while_connecting_leaves_no_connection(
    server: PageServer, open_page: OpenPage
) -> None:
    page = open_page()
    page.page.fetch()
    page.page.abort()

    assert await page.read() == b"waiting 1\nkv 0.5"
    await eventually(lambda: server.open_connections == 1)


async def test_one_that_is_given_up_while_nobody_accepts_leaves_no_connection(
    open_page: OpenPage, server: PageServer
) -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        hung = open_page(port=full.getsockname()[1])
        for _ in range(3 * MOST_CONNECTIONS):
            hung.page.fetch()
            for _ in range(3):
                await asyncio.sleep(0)
            hung.page.abort()
            await asyncio.sleep(0)

        assert not hung.is_told_of
        pages = [open_page() for _ in range(MOST_CONNECTIONS)]
        assert [await page.read() for page in pages] == [b"waiting 1\nkv 0.5"] * MOST_CONNECTIONS


async def test_closing_ends_the_connection(server: PageServer, open_page: OpenPage) -> None:
    page = open_page()
    await page.read()

    page.page.close()

    await eventually(lambda: server.open_connections == 0)


async def test_ipv6_is_an_address_like_any_other(pages: Pages) -> None:
    async with page_server("::1") as server:
        page = ReadPage(pages, HttpTarget(host="::1", port=server.port, path="/metrics"))

        assert await page.read() == b"waiting 1\nkv 0.5"
        assert f"Host: [::1]:{server.port}".encode() in server.requests[0]
        page.page.close()


async def test_host_names_are_looked_up(server: PageServer, open_page: OpenPage) -> None:
    assert await open_page(host="localhost").read() == b"waiting 1\nkv 0.5"


def server_context(authority: Authority, *, asks_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server)
    if asks_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.certificate)
    return context


async def test_https_is_not_verified_unless_told_to(pages: Pages, authority: Authority) -> None:
    async with page_server(tls=server_context(authority)) as server:
        target = HttpTarget(scheme="https", host="127.0.0.1", port=server.port, path="/metrics")
        page = ReadPage(pages, target)

        assert [await page.read() for _ in range(3)] == [b"waiting 1\nkv 0.5"] * 3
        assert server.connections == 1
        page.page.close()
        await pages.aclose()


@pytest.mark.parametrize("is_known", [True, False])
async def test_https_is_verified_by_an_authority(
    pages: Pages, authority: Authority, is_known: bool
) -> None:
    async with page_server(tls=server_context(authority)) as server:
        target = HttpTarget(
            scheme="https",
            host="127.0.0.1",
            port=server.port,
            path="/metrics",
            insecure_skip_verify=False,
            ca_cert_path=authority.certificate if is_known else None,
        )
        outcome = await ReadPage(pages, target).read()

        if is_known:
            assert outcome == b"waiting 1\nkv 0.5"
        else:
            assert isinstance(outcome, str)
            assert "certificate verify failed" in outcome
        await pages.aclose()


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_client_certificate_is_shown(
    pages: Pages, authority: Authority, is_shown: bool
) -> None:
    async with page_server(tls=server_context(authority, asks_client=True)) as server:
        certificate, key = authority.client if is_shown else (None, None)
        target = HttpTarget(
            scheme="https",
            host="127.0.0.1",
            port=server.port,
            path="/metrics",
            client_cert_path=certificate,
            client_key_path=key,
        )
        outcome = await ReadPage(pages, target).read()

        assert (outcome == b"waiting 1\nkv 0.5") is is_shown
        await pages.aclose()


async def test_files_that_can_not_be_used_are_named(
    pages: Pages, authority: Authority, tmp_path: Path
) -> None:
    missing, locked = tmp_path / "missing.pem", tmp_path / "locked.key"
    certificate, key = authority.client
    locked.write_bytes(
        load_pem_private_key(key.read_bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        )
    )
    target = HttpTarget(scheme="https", host="127.0.0.1", port=1, path="/metrics")
    untrusting = replace(target, insecure_skip_verify=False, ca_cert_path=missing)
    half = replace(target, client_cert_path=missing, client_key_path=key)
    encrypted = replace(target, client_cert_path=certificate, client_key_path=locked)

    told = [await ReadPage(pages, each).read() for each in (untrusting, half, encrypted)]

    assert told[:2] == [
        f"certificates to trust {missing} can't be used: no such file or directory",
        f"client certificate {missing} and {key} can't be used: no such file or directory",
    ]
    assert str(told[2]).startswith(f"client certificate {certificate} and {locked} can't be used: ")


async def test_few_connections_go_round_among_many_pages(
    server: PageServer, open_page: OpenPage
) -> None:
    server.reply = answer(b"page")
    pages = [open_page() for _ in range(MOST_CONNECTIONS + 1)]

    outcomes = [await page.read() for page in pages]
    assert outcomes == [*[b"page"] * MOST_CONNECTIONS, REFUSED]
    assert server.connections == MOST_CONNECTIONS

    assert await pages[0].read() == b"page"
    await eventually(lambda: server.open_connections < MOST_CONNECTIONS)
    assert [await page.read() for page in pages[1:]] == [b"page"] * MOST_CONNECTIONS


async def test_connections_that_fail_or_are_given_up_can_be_had_again(
    server: PageServer, open_page: OpenPage
) -> None:
    nobody, hasty, page = open_page(port=1), open_page(), open_page()

    for _ in range(2 * MOST_CONNECTIONS):
        assert await nobody.read() != REFUSED
    for _ in range(2 * MOST_CONNECTIONS):
        hasty.page.fetch()
        hasty.page.abort()
    server.reply = answer(b"page")
    async with asyncio.timeout(10):
        while await page.read() == REFUSED:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0)
        for _ in range(MOST_CONNECTIONS - 1):
            assert await open_page().read() == b"page"
