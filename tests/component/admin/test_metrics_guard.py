"""The metrics port with authentication, beside an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from epp.admin import access as access_module
from epp.admin.access import Access
from epp.admin.http_port import HttpPort
from epp.admin.metrics_guard import MetricsGuard
from epp.admin.metrics_pages import metrics_pages
from epp.kubernetes.access_reviews import KubeAccessReviews
from epp.observability.metrics import Metrics
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.logs import awaitable_logs

PAGES = ("/metrics", "/debug/plugins/state")
READER, OTHER = "reader-token", "other-token"
REVIEWS = ("tokenreviews", "subjectaccessreviews")


@pytest.fixture
def kube(kube: FakeKubeApi) -> FakeKubeApi:
    kube.users = {READER: "reader", OTHER: "other"}
    kube.path_rights = {("reader", "get", page) for page in PAGES}
    return kube


class Scraper:
    """Reads pages of one port, which counts what it refuses."""

    def __init__(self, session: aiohttp.ClientSession, metrics: Metrics) -> None:
        self.session = session
        self._metrics = metrics
        self.headers: Mapping[str, str] = {}

    async def get(self, token: str | None = READER, path: str = "/metrics") -> tuple[int, str]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.ask(path, headers)

    async def ask(self, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        async with self.session.get(path, headers=headers) as response:
            self.headers = response.headers
            return response.status, await response.text()

    def refusals(self) -> dict[str, int]:
        name = "epp_metrics_port_rejections_total"
        slices, _ = self._metrics.exposition("")
        lines = b"".join(slices).decode().splitlines()
        samples = [line.removeprefix(name) for line in lines if line.startswith(f"{name}{{")]
        reasons = {each.split('"')[1]: int(float(each.split()[-1])) for each in samples}
        return {reason: count for reason, count in reasons.items() if count}


@pytest.fixture
def review_timeout() -> float:
    return 30.0


@pytest.fixture
async def scraper(kube: FakeKubeApi, review_timeout: float) -> AsyncIterator[Scraper]:
    metrics = Metrics()
    async with kube.client("picker") as client:
        access = Access(KubeAccessReviews(client, timeout=review_timeout))
        guard = MetricsGuard(access, metrics.cluster.scrape_refused)
        pages = metrics_pages(metrics, dict, guard)
        port = HttpPort(pages, "127.0.0.1", 0, port_flag="--metrics-port")
        url = f"http://127.0.0.1:{await port.start()}"
        async with aiohttp.ClientSession(url) as session:
            yield Scraper(session, metrics)
        await port.stop()


@pytest.mark.parametrize("path", PAGES)
async def test_a_token_that_may_read_the_page_gets_it(
    scraper: Scraper, kube: FakeKubeApi, path: str
) -> None:
    status, page = await scraper.get(path=path)

    assert status == 200
    assert page
    assert [seen.token for seen in kube.seen] == ["picker", "picker"]
    assert scraper.refusals() == {}


@pytest.mark.parametrize("path", PAGES)
async def test_without_a_token_no_page_is_told_and_nobody_is_asked(
    scraper: Scraper, kube: FakeKubeApi, path: str
) -> None:
    status, page = await scraper.get(None, path)

    assert (status, page) == (401, "this page takes a token: Authorization: Bearer <token>\n")
    assert scraper.headers["WWW-Authenticate"] == "Bearer"
    assert not kube.seen
    assert scraper.refusals() == {"no-token": 1}


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "Basic cmVhZGVyOg==", "reader-token", "Bearer a b", "Bearer \xe4"],
)
async def test_what_can_not_be_a_token_is_none(
    scraper: Scraper, kube: FakeKubeApi, value: str
) -> None:
    status, _ = await scraper.ask("/metrics", {"Authorization": value})

    assert status == 401
    assert not kube.seen


async def test_the_scheme_is_written_in_any_case(scraper: Scraper) -> None:
    status, _ = await scraper.ask("/metrics", {"Authorization": f"bearer  {READER}"})

    assert status == 200


async def test_an_unknown_token_is_refused(scraper: Scraper) -> None:
    assert await scraper.get("made-up") == (401, "the token is not valid\n")
    assert scraper.headers["WWW-Authenticate"] == "Bearer"
    assert scraper.refusals() == {"invalid-token": 1}


async def test_a_user_without_the_right_is_told_which_one(scraper: Scraper) -> None:
    status, page = await scraper.get(OTHER)

    assert status == 403
    assert "nonResourceURLs: [/metrics], verbs: [get]" in page
    assert scraper.refusals() == {"forbidden": 1}


@pytest.mark.parametrize("path", ["/%6detrics", "/./metrics", "/debug/../metrics", "/metrics?a=b"])
async def test_one_page_is_one_right_however_it_is_written(
    scraper: Scraper, kube: FakeKubeApi, path: str
) -> None:
    assert (await scraper.get(path=path))[0] == 200
    assert (await scraper.get(None, path=path))[0] == 401


@pytest.mark.parametrize("path", PAGES)
async def test_the_head_of_a_page_is_for_those_who_may_read_the_page(
    scraper: Scraper, kube: FakeKubeApi, path: str
) -> None:
    statuses = []
    for token in (READER, OTHER, "made-up"):
        headers = {"Authorization": f"Bearer {token}"}
        async with scraper.session.head(path, headers=headers) as response:
            statuses.append(response.status)
    async with scraper.session.head(path) as response:
        statuses.append(response.status)

    assert statuses == [200, 403, 401, 401]


async def test_probes_need_no_token(scraper: Scraper, kube: FakeKubeApi) -> None:
    kube.forbid("create", "tokenreviews")

    assert await scraper.get(None, "/healthz") == (200, "ok\n")


async def test_what_is_not_there_is_nobodys(scraper: Scraper, kube: FakeKubeApi) -> None:
    assert (await scraper.get(None, "/debug"))[0] == 404
    async with scraper.session.post("/metrics") as response:
        assert response.status == 405
    assert not kube.seen


async def test_answers_of_the_api_server_are_remembered(
    scraper: Scraper, kube: FakeKubeApi
) -> None:
    for token in (READER, OTHER, "made-up"):
        await scraper.get(token)
    asked = len(kube.seen)
    await kube.kill()

    statuses = [(await scraper.get(token))[0] for token in (READER, OTHER, "made-up")]

    assert statuses == [200, 403, 401]
    assert len(kube.seen) == asked == 5


@pytest.mark.parametrize("resource", REVIEWS)
async def test_without_the_cluster_role_every_scrape_is_told_so_and_the_log_once(
    scraper: Scraper, kube: FakeKubeApi, resource: str
) -> None:
    kube.forbid("create", resource)

    with awaitable_logs() as lines:
        answers = [await scraper.get() for _ in range(3)]
        kube.allow("create", resource)
        recovered, _ = await scraper.get()

    for status, page in answers:
        assert status == 503
        assert f"may not create {resource}." in page
        assert "ClusterRole epp-metrics-auth" in page
    assert recovered == 200
    events = [lines.get_nowait() for _ in range(lines.qsize())]
    assert [each["event"] for each in events] == [
        "requests to the metrics port are refused",
        "the metrics port is open again",
    ]
    assert "ClusterRole epp-metrics-auth" in events[0]["problem"]
    assert scraper.refusals() == {"review-failed": 3}


@pytest.mark.parametrize("status", [401, 404, 429, 500])
async def test_an_error_of_the_api_server_lets_nobody_in(
    scraper: Scraper, kube: FakeKubeApi, status: int
) -> None:
    kube.fail(status, text=f"your token was {READER}")

    with awaitable_logs() as lines:
        answered, page = await scraper.get()

    assert answered == 503
    assert f"answered {status}" in page
    assert READER not in page + "".join(str(lines.get_nowait()) for _ in range(lines.qsize()))


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"status": {"authenticated": "yes"}}'])
async def test_what_is_no_review_lets_nobody_in(
    scraper: Scraper, kube: FakeKubeApi, text: str
) -> None:
    kube.fail(201, text=text)

    with awaitable_logs() as lines:
        answers = {await scraper.get() for _ in range(2)}

    assert answers == {
        (503, "the token can't be reviewed: the API server sent what is no review\n")
    }
    assert lines.qsize() == 1


@pytest.mark.parametrize("text", ["{}", '{"status": {"authenticated": true, "user": {}}}'])
async def test_a_review_that_says_nothing_lets_nobody_in(
    scraper: Scraper, kube: FakeKubeApi, text: str
) -> None:
    kube.fail(201, text=text)

    assert (await scraper.get())[0] == 401


async def test_an_api_server_that_is_gone_lets_nobody_in(
    scraper: Scraper, kube: FakeKubeApi
) -> None:
    await kube.kill()

    assert (await scraper.get())[0] == 503
    assert scraper.headers["Retry-After"] == "5"


@pytest.mark.parametrize("review_timeout", [0.2])
async def test_an_api_server_that_says_nothing_is_not_waited_for(
    scraper: Scraper, kube: FakeKubeApi
) -> None:
    await kube.freeze()

    status, page = await scraper.get()

    assert status == 503
    assert "did not answer within 0.2 s" in page
    await kube.thaw()


async def test_a_flood_of_made_up_tokens_is_not_passed_on(
    scraper: Scraper, kube: FakeKubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "REVIEWS_PER_SECOND", 0.0)
    await scraper.get()

    answers = await asyncio.gather(*(scraper.get(f"made-up-{n}") for n in range(100)))

    asked = len(kube.requests("create", "tokenreviews"))
    assert asked == access_module.BURST
    assert {status for status, _ in answers} == {401, 503}
    assert scraper.refusals() == {"invalid-token": asked - 1, "too-many-reviews": 101 - asked}
    assert (await scraper.get())[0] == 200
