from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from epp.data_layer.readability_log import LINES_PER_WINDOW
from epp.framework.data_layer import Extractor
from epp.framework.endpoint import NO_METRICS, Endpoint
from tests.fakes.data_layer import AttributeExtractor, LoadExtractor, PageSource
from tests.fakes.metrics.samples import value_of
from tests.fakes.pool import pod_of
from tests.unit.data_layer.conftest import Play, Scene, scraping

LOST = "endpoint can't be scraped"
BACK = "endpoint can be scraped again"


def test_an_endpoint_is_stale_until_its_metrics_have_been_read(play: Play) -> None:
    async def story(scene: Scene) -> None:
        (endpoint,) = scene.add_pods(1, first=2)
        assert endpoint.is_stale

        await asyncio.sleep(0.01)

        assert not endpoint.is_stale
        assert endpoint.metrics.waiting_queue_size == 1

    play(story)


def test_one_that_never_answers_stays_stale(play: Play) -> None:
    async def story(scene: Scene) -> None:
        scene.server().page = None
        await asyncio.sleep(30)

        assert scene.endpoint().is_stale
        assert scene.endpoint().metrics == NO_METRICS

    play(story)


def test_nothing_is_stale_where_nothing_is_scraped(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(30)

        assert not scene.endpoint().is_stale
        assert not scene.layer.is_scraping

    play(story, [(PageSource(), [AttributeExtractor()])])


@pytest.mark.parametrize("is_hung", [True, False], ids=["hung", "failing"])
def test_data_of_old_are_not_believed(play: Play, is_hung: bool) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        if is_hung:
            scene.server().page = None
        else:
            scene.server().failure = "HTTP status 500"
        before = scene.endpoint().metrics
        assert before.updated_at is not None

        # max(4 x 50 ms, 0.2) + 1 s, and a tenth until it is noticed
        await asyncio.sleep(before.updated_at + 1.15 - scene.now())
        assert not scene.endpoint().is_stale
        await asyncio.sleep(0.25)

        assert scene.endpoint().is_stale
        assert scene.endpoint().metrics == structs.replace(
            before, waiting_queue_size=0, running_requests_size=0, kv_cache_usage=0.0
        )
        assert scene.endpoint().metrics.cache_block_size == 16
        assert value_of(scene.metrics, "epp_stale_endpoints") == 1

    play(story)


def test_the_first_page_after_that_is_believed(play: Play) -> None:
    async def story(scene: Scene) -> None:
        scene.server().failure = "HTTP status 500"
        await asyncio.sleep(5)
        scene.server().failure = ""
        await asyncio.sleep(1.2)

        assert not scene.endpoint().is_stale
        assert scene.endpoint().metrics.waiting_queue_size == 1

    play(story)


def test_a_page_that_is_no_metrics_is_no_data(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        scene.server().page = b"hello world"
        await asyncio.sleep(2)

        assert scene.endpoint().is_stale
        assert scene.layer.problem == (
            "1 of 1 endpoints can't be scraped, for example 10.0.0.1:8000 (page-source):"
            " no line `waiting`"
        )

    play(story)


def test_what_else_is_on_the_page_does_not_make_metrics_fresh(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        scene.server().page = b"other 1"
        await asyncio.sleep(2)

        assert scene.endpoint().state.attributes["page"] == b"other 1"
        assert scene.endpoint().is_stale

    play(story, [(PageSource(), [AttributeExtractor(), LoadExtractor()])])


class NotesExtractor(Extractor):
    """Keeps the last page of its source; one that reads `nothing` is of no use."""

    def __init__(self, key: str) -> None:
        self.identify(type="notes", name=key)

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        if payload == b"nothing":
            return False
        endpoint.state.attributes[self.name] = payload
        return True


SLOW = (PageSource("slow", interval=2.0, path="/slow"), [NotesExtractor("slow")])


def test_attributes_go_with_the_pages_they_came_on_and_return_with_the_next(play: Play) -> None:
    async def story(scene: Scene) -> None:
        attributes = scene.endpoint().state.attributes
        attributes["of a request"] = 1
        await asyncio.sleep(1)
        assert {"page", "slow", "of a request"} <= attributes.keys()

        scene.server().failure = "HTTP status 500"
        await asyncio.sleep(2)
        assert scene.endpoint().is_stale
        assert attributes.keys() == {"slow", "of a request"}

        scene.server().failure = ""
        await asyncio.sleep(1.2)
        assert attributes.keys() == {"page", "slow", "of a request"}

        scene.pages.server("10.0.0.1:8000/slow").page = b"nothing"
        await asyncio.sleep(7)
        assert "slow" in attributes
        await asyncio.sleep(5)
        assert not scene.endpoint().is_stale
        assert attributes.keys() == {"page", "of a request"}

    play(story, [(PageSource(), [AttributeExtractor(), LoadExtractor()]), SLOW])


def test_attributes_of_a_source_that_is_gone_go_too(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        assert "slow" in scene.endpoint().state.attributes

        scene.layer.reconfigure(scraping())

        assert "slow" not in scene.endpoint().state.attributes

    play(story, [*scraping(), SLOW])


INCOMPLETE = "page can be read in part only"
COMPLETE = "page can be read completely again"


def test_a_page_that_lacks_something_is_told_once_until_it_is_complete_for_a_while(
    play: Play,
) -> None:
    async def story(scene: Scene) -> None:
        with capture_logs() as lines:
            await asyncio.sleep(1)
            for _ in range(20):
                scene.server().page = b"waiting 1"
                await asyncio.sleep(1)
                scene.server().page = b"waiting 1\nkv 0.5"
                await asyncio.sleep(1)
            await asyncio.sleep(12)

        told, mended = lines
        assert (told["event"], told["log_level"]) == (INCOMPLETE, "warning")
        assert (told["endpoint"], told["problem"]) == ("10.0.0.1:8000", "no line `kv`")
        assert mended["event"] == COMPLETE
        assert not scene.endpoint().is_stale

    play(story)


def test_pages_that_lack_something_do_not_flood_the_log(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        for number in range(1, 101):
            scene.server(number).page = b"waiting 1"
        with capture_logs() as lines:
            await asyncio.sleep(30)

        told = [line for line in lines if line["event"] == INCOMPLETE]
        (rest,) = [line for line in lines if "incomplete" in line]
        assert len(told) == LINES_PER_WINDOW
        assert rest["incomplete"] == 100 - LINES_PER_WINDOW

    play(story, pods=100)


def test_idleness_makes_nothing_stale_and_neither_does_its_end(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(30)
        scene.layer.note_request()
        for _ in range(300):
            await asyncio.sleep(0.01)
            assert not any(each.is_stale for each in scene.datastore.snapshot().endpoints)

    play(story, pods=50)


def test_an_endpoint_that_hung_while_idle_is_found_out_soon_after_the_first_request(
    play: Play,
) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(30)
        scene.server().page = None
        scene.layer.note_request()
        await asyncio.sleep(1.4)

        assert scene.endpoint().is_stale

    play(story)


def test_a_pod_that_comes_back_is_stale_until_it_has_answered_again(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        scene.datastore.upsert_pod(replace(pod_of("p1", "10.0.0.1"), ready=False))
        await asyncio.sleep(60)
        scene.datastore.upsert_pod(pod_of("p1", "10.0.0.1"))
        assert scene.endpoint().is_stale
        assert scene.endpoint().metrics.waiting_queue_size == 0

        await asyncio.sleep(0.01)
        assert not scene.endpoint().is_stale

    play(story)


def test_a_pod_that_is_deleted_and_back_within_one_change_starts_anew(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        with scene.datastore.batch():
            scene.datastore.delete_pod("uid-p1")
            scene.datastore.upsert_pod(pod_of("p1", "10.0.0.1"))
        assert scene.endpoint().is_stale

        await asyncio.sleep(0.01)
        assert not scene.endpoint().is_stale

    play(story)


def test_an_outage_of_ten_seconds_is_two_lines(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        scene.server().failure = "connection refused"
        await asyncio.sleep(10)
        scene.server().failure = ""
        await asyncio.sleep(5)

        assert 8 <= value_of(scene.metrics, "llm_d_epp_datalayer_poll_errors_total") <= 20

    with capture_logs() as logs:
        play(story)

    assert [line["event"] for line in logs] == [LOST, BACK]
    assert logs[0]["endpoint"] == "10.0.0.1:8000"
    assert logs[0]["reason"] == "connection refused"


def test_an_outage_of_a_whole_pool_is_a_few_lines_and_a_sum(play: Play) -> None:
    async def story(scene: Scene) -> None:
        for number in range(1, 201):
            scene.server(number).failure = "connection refused"
        await asyncio.sleep(60)

    with capture_logs() as logs:
        play(story, pods=200)

    lost = [line for line in logs if line["event"] == LOST]
    (rest,) = [line for line in logs if line["event"] == "scraping of more endpoints changed"]
    assert len(lost) == LINES_PER_WINDOW
    assert rest["not_scraped"] == 200 - LINES_PER_WINDOW


def test_a_single_failure_is_no_line(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        scene.server().failure = "connection reset by peer"
        await asyncio.sleep(0.06)
        scene.server().failure = ""
        await asyncio.sleep(5)

        assert len(scene.server().asked_at) > 50

    with capture_logs() as logs:
        play(story)

    assert logs == []


def test_a_process_that_stood_still_blames_no_server(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(20)
        scene.stood_still = 30
        for _ in range(300):
            await asyncio.sleep(0.01)
            assert not any(each.is_stale for each in scene.datastore.snapshot().endpoints)
        assert value_of(scene.metrics, "llm_d_epp_datalayer_poll_errors_total") == 0

    play(story, pods=20)
