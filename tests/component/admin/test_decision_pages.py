from __future__ import annotations

import asyncio
import io
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from epp.admin.admin_pages import admin_pages
from epp.admin.decision_pages import DecisionPages
from epp.admin.dry_run import MOST_DRY_RUN_BYTES
from epp.admin.http_port import HttpPort
from epp.admin.pool_view import PoolView
from epp.app.request_path import RequestPathSettings
from epp.request_control.decision_log import Decision, DecisionLog
from epp.request_control.incoming import IncomingRequest
from tests.fakes.pickers.decided import Decided, incoming

COMPLETION = {"model": "m", "prompt": "a"}


def no_pool() -> PoolView:
    raise AssertionError("nobody asks")


class Port:
    """The admin port over decisions, and a client of it."""

    def __init__(
        self,
        picker: Decided,
        rehearse: Callable[[IncomingRequest], Awaitable[Decision]] | None = None,
        *,
        decisions: DecisionLog | None = None,
    ) -> None:
        kept = picker.path.decisions if decisions is None else decisions
        pages = DecisionPages(kept, rehearse or picker.path.rehearsal.run)
        self._port = HttpPort(admin_pages(no_pool, pages), "127.0.0.1", 0, port_flag="--admin-port")
        self.session: aiohttp.ClientSession

    async def __aenter__(self) -> Port:
        port = await self._port.start()
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{port}")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.session.close()
        await self._port.stop()

    async def get(self, path: str | URL) -> tuple[int, Any]:
        async with self.session.get(path) as response:
            return response.status, await response.json()

    async def dry_run(self, document: object) -> tuple[int, Any]:
        async with self.session.post("/decisions/dry-run", json=document) as response:
            return response.status, await response.json()

    async def post(self, body: bytes, content_type: str) -> tuple[int, Any]:
        async with self.session.post(
            "/decisions/dry-run", data=io.BytesIO(body), headers={"Content-Type": content_type}
        ) as response:
            return response.status, await response.json()


@pytest.fixture
def picker() -> Decided:
    return Decided()


@pytest.fixture
async def port(picker: Decided) -> AsyncIterator[Port]:
    async with Port(picker) as port:
        yield port


async def test_the_last_decisions_are_listed_newest_first(picker: Decided, port: Port) -> None:
    for number in range(3):
        picker.decide(incoming(headers={"x-request-id": f"r{number}"}))

    status, page = await port.get("/decisions?limit=2")

    assert status == 200
    assert (page["size"], page["kept"]) == (256, 3)
    assert [each["requestId"] for each in page["decisions"]] == ["r2", "r1"]
    assert page["decisions"][0]["outcome"] == "picked"


async def test_many_decisions_are_told_in_turns(picker: Decided) -> None:
    told_in: list[int] = []
    turns = 0

    class Watched(tuple[Decision, ...]):
        def __getitem__(self, place: Any) -> Any:
            told_in.append(turns)
            return super().__getitem__(place)

    def count_turns() -> None:
        nonlocal turns
        turns += 1
        counting.append(asyncio.get_running_loop().call_soon(count_turns))

    counting: deque[asyncio.Handle] = deque(maxlen=1)
    for _ in range(150):
        picker.decide()
    kept = _Log(Watched(picker.log.last(150)))
    count_turns()

    async with Port(picker, decisions=kept) as port:
        _, page = await port.get("/decisions?limit=150")
    counting[0].cancel()

    assert len(page["decisions"]) == 150
    assert len(set(told_in)) == 3


class _Log(DecisionLog):
    def __init__(self, decisions: Sequence[Decision]) -> None:
        super().__init__(256)
        self._decisions = decisions

    def last(self, count: int) -> Sequence[Decision]:
        return self._decisions


@pytest.mark.parametrize("limit", ["0", "-1", "x", "", "9999999", "٣"])
async def test_a_limit_that_is_none_is_refused(port: Port, limit: str) -> None:
    status, page = await port.get(f"/decisions?limit={limit}")

    assert status == 400
    assert page["error"].endswith("must be a number from 1 to 999999")


@pytest.mark.parametrize("request_id", ["a", "dry-run", "a/b?c d", "ü", "a\nb", "%2F"])
async def test_a_request_is_found_by_whatever_id_it_had(
    picker: Decided, port: Port, request_id: str
) -> None:
    picker.decide(incoming(headers={"x-request-id": request_id}))

    status, page = await port.get(URL(f"/decisions/{quote(request_id, safe='')}", encoded=True))

    assert status == 200
    [decision] = page
    assert decision["requestId"] == request_id
    assert decision["profiles"][0]["scorers"] == [
        {"plugin": "queue-scorer", "weight": 2.0, "isKept": False}
    ]


async def test_an_unknown_request_is_said_to_be_unknown(picker: Decided, port: Port) -> None:
    picker.decide()

    status, page = await port.get("/decisions/nope")

    assert status == 404
    assert page["error"] == (
        "request 'nope' is not among the last 1 decisions of this replica (--decision-log-size 256)"
    )


@pytest.mark.parametrize("path", ["/decisions", "/decisions/a"])
async def test_where_decisions_are_not_kept_the_flag_is_named(path: str) -> None:
    async with Port(Decided(settings=RequestPathSettings(decision_log_size=0))) as port:
        status, page = await port.get(path)

        assert status == 404
        assert page["error"] == "decisions are not kept: --decision-log-size is 0"
        assert (await port.dry_run({"body": COMPLETION}))[0] == 200


async def test_a_dry_run_tells_all_and_leaves_nothing(picker: Decided, port: Port) -> None:
    status, decision = await port.dry_run(
        {"path": "/v1/completions", "body": COMPLETION, "subset": ["10.0.0.2"]}
    )

    assert status == 200
    assert decision["isDryRun"]
    assert decision["endpoints"] == ["10.0.0.2:8000"]
    assert decision["leftOut"][0]["by"] == "subset"
    assert decision["steps"][0]["extensionPoint"] == "RequestParsing"
    assert len(picker.log) == 0
    assert picker.endpoint("10.0.0.2:8000").load.in_flight == 0


async def test_a_dry_run_that_is_rejected_is_an_answer(port: Port) -> None:
    status, decision = await port.dry_run({"body": COMPLETION, "subset": ["10.9.9.9"]})

    assert status == 200
    assert decision["rejection"]["status"] == 503


async def test_what_is_no_dry_run_is_a_400_that_names_the_field(port: Port) -> None:
    status, page = await port.dry_run({"path": "v1"})

    assert status == 400
    assert "path: 'v1' is no path" in page["error"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded"])
async def test_a_page_of_another_site_can_not_ask_for_dry_runs(
    port: Port, content_type: str
) -> None:
    status, page = await port.post(b'{"body": {}}', content_type)

    assert status == 415
    assert "must be application/json" in page["error"]


async def test_a_body_that_is_too_large_is_not_read_to_its_end(port: Port) -> None:
    status, page = await port.post(b" " * (MOST_DRY_RUN_BYTES + 1), "application/json")

    assert status == 413
    assert str(MOST_DRY_RUN_BYTES) in page["error"]


async def test_there_is_one_dry_run_at_a_time(picker: Decided) -> None:
    begun, end = asyncio.Event(), asyncio.Event()

    async def rehearse(request: IncomingRequest) -> Decision:
        begun.set()
        await end.wait()
        return await picker.rehearse(request)

    async with Port(picker, rehearse) as port:
        first = asyncio.create_task(port.dry_run({"body": COMPLETION}))
        await begun.wait()
        status, page = await port.dry_run({"body": COMPLETION})
        end.set()

        assert status == 429
        assert "one at a time" in page["error"]
        assert (await first)[0] == 200
        assert (await port.dry_run({"body": COMPLETION}))[0] == 200


async def test_head_tells_what_get_would(picker: Decided, port: Port) -> None:
    picker.decide(incoming(headers={"x-request-id": "r"}))

    for path, status in (("/decisions", 200), ("/decisions/r", 200), ("/decisions/none", 404)):
        async with port.session.head(path) as response:
            assert response.status == status
            assert response.content_type == "application/json"


async def test_dry_runs_are_only_posted_and_decisions_only_read(port: Port) -> None:
    async with port.session.post("/decisions") as response:
        assert response.status == 405
    async with port.session.delete("/decisions/dry-run") as response:
        assert response.status == 405
