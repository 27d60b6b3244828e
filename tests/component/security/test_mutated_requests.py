"""Requests that are almost HTTP: the metrics port and the admin port answer, and log, no error."""

from __future__ import annotations

import asyncio
import random

import pytest

from epp.admin.admin_pages import admin_pages
from epp.admin.http_port import HttpLimits, HttpPort
from epp.admin.metrics_pages import metrics_pages
from epp.admin.pool_view import PoolView
from epp.observability.metrics import Metrics
from tests.fakes.transport.raw_http import said_to

REQUESTS = [
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /debug/plugins/state?x=1 HTTP/1.1\r\nHost: [::1]:9\r\nExpect: 100-continue\r\n\r\n",
    b"PUT /log-level HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    b"POST /decisions/dry-run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{123}",
    b"GET http://a/healthz HTTP/1.0\r\nUpgrade: h2c\r\nConnection: upgrade\r\nHost: a\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\n\r\n",
]
PIECES = [b"\r\n", b"\0", b":", b" ", b"\xff", b"a" * 9000, b"%00", b"//", b"Host: b\r\n"]


def no_pool() -> PoolView:
    raise NotImplementedError


def mutated(rng: random.Random) -> bytes:
    """Some requests in a row, with a few changes."""
    content = bytearray(b"".join(rng.choices(REQUESTS, k=rng.randint(1, 3))))
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(content))
        match rng.randrange(3):
            case 0:
                content[at] = rng.randrange(256)
            case 1:
                content[at:at] = rng.choice(PIECES)
            case _:
                del content[at : at + rng.randrange(8)]
    return bytes(content)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["metrics", "admin"])
async def test_no_request_is_an_error_of_ours(
    kind: str, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(seed)
    pages = metrics_pages(Metrics(), dict) if kind == "metrics" else admin_pages(no_pool)
    limits = HttpLimits(life_seconds=0.2)
    server = HttpPort(pages, "127.0.0.1", 0, port_flag="--a-port", limits=limits)
    port = await server.start()
    for _ in range(5):
        requests = [mutated(rng) for _ in range(40)]
        answers = await asyncio.gather(*(said_to(port, each) for each in requests))
        for request, answer in zip(requests, answers, strict=True):
            assert not answer.startswith((b"HTTP/1.1 5", b"HTTP/1.0 5")), request
    await server.stop()

    assert not caplog.records
