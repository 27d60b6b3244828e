from __future__ import annotations

import asyncio

import pytest

from epp.framework.data_layer import EndpointSource
from epp.framework.endpoint import NO_METRICS, Endpoint
from tests.fakes.data_layer import (
    AttributeExtractor,
    LoadExtractor,
    PageSource,
    RecordingListener,
)
from tests.fakes.metrics.samples import value_of
from tests.fakes.pool import pod_of
from tests.unit.data_layer.conftest import Play, Scene, scraping


class Endpoints(EndpointSource):
    type = "endpoints"


class Faulty(RecordingListener):
    def endpoint_added(self, endpoint: Endpoint) -> None:
        raise ZeroDivisionError


def test_listeners_are_told_of_what_is_there_and_of_what_happens(play: Play) -> None:
    attached, alone = RecordingListener("attached"), RecordingListener("alone")

    async def story(scene: Scene) -> None:
        scene.add_pods(1, first=2)
        scene.datastore.upsert_pod(pod_of("p1", "10.0.0.1", labels={"a": "b"}))
        scene.datastore.delete_pod("uid-p2")

        assert attached.told == [
            "added 10.0.0.1:8000",
            "added 10.0.0.2:8000",
            "replaced 10.0.0.1:8000",
            "removed 10.0.0.2:8000",
        ]
        assert alone.told == attached.told

    play(story, [(Endpoints(), [attached])], [alone])


def test_a_listener_that_fails_harms_no_other(play: Play) -> None:
    told = RecordingListener()

    async def story(scene: Scene) -> None:
        assert told.told == ["added 10.0.0.1:8000", "added 10.0.0.2:8000"]
        assert (
            value_of(scene.metrics, "epp_plugin_errors_total", plugin_name="faulty", **POINT) == 2
        )

    play(story, [], [Faulty("faulty"), told], pods=2)


POINT = {"extension_point": "EndpointListener"}


def test_a_source_that_stays_keeps_its_connections_and_data(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        before = scene.endpoint().metrics
        more = (PageSource("more", path="/more"), [AttributeExtractor()])
        scene.layer.reconfigure([*scraping(), more])

        assert scene.endpoint().metrics is before
        assert not scene.endpoint().is_stale
        await asyncio.sleep(1)
        assert scene.server().opened == 1
        assert max(scene.server().gaps) <= 0.1
        assert scene.endpoint().state.attributes["page"] == b"waiting 1\nkv 0.5"

    play(story)


def test_a_source_that_goes_is_asked_no_more(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        asked = len(scene.server().asked_at)
        scene.layer.reconfigure([])
        await asyncio.sleep(1)

        assert len(scene.server().asked_at) == asked
        assert scene.endpoint().metrics is NO_METRICS
        assert not scene.endpoint().is_stale
        assert value_of(scene.metrics, "llm_d_epp_ready_endpoints") == 1

    play(story)


def test_scraping_that_begins_makes_endpoints_stale_until_they_have_answered(play: Play) -> None:
    async def story(scene: Scene) -> None:
        scene.layer.reconfigure(scraping())
        assert scene.endpoint().is_stale
        await asyncio.sleep(0.01)
        assert not scene.endpoint().is_stale

    play(story, [])


def test_another_path_is_another_page(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        scene.layer.reconfigure([(PageSource(path="/other"), [LoadExtractor()])])
        await asyncio.sleep(1)

        assert len(scene.pages.server("10.0.0.1:8000/other").asked_at) > 15
        assert not [t for t in scene.server().asked_at if t > 1.01]

    play(story)


def test_a_shorter_interval_is_in_force_at_once(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        scene.layer.reconfigure([(PageSource(interval=0.1), [LoadExtractor()])])
        await asyncio.sleep(1)

        assert len(scene.server().asked_at) == pytest.approx(11, abs=1)

    play(story, [(PageSource(interval=60.0), [LoadExtractor()])])


def test_only_new_listeners_are_told_of_what_is_there(play: Play) -> None:
    old, new = RecordingListener("old"), RecordingListener("new")

    async def story(scene: Scene) -> None:
        scene.layer.reconfigure([], [old, new])

        assert old.told == new.told == ["added 10.0.0.1:8000"]

    play(story, [], [old])


@pytest.mark.parametrize("case", ["D15"])
def test_pool_gauges_follow_fresh_endpoints(play: Play, case: str) -> None:
    async def story(scene: Scene) -> None:
        for number, waiting in enumerate((2, 5, 9, 100), start=1):
            scene.server(number).page = b"waiting %d\nkv 0.5" % waiting
        scene.server(4).page = None
        await asyncio.sleep(1.5)

        for name, value in {
            "llm_d_epp_average_queue_size": 5.33,
            "inference_pool_average_queue_size": 5.33,
            "llm_d_epp_std_dev_queue_size": 3.51,
            "llm_d_epp_average_kv_cache_utilization": 0.5,
            "llm_d_epp_ready_endpoints": 3,
            "inference_pool_ready_pods": 3,
        }.items():
            assert value_of(scene.metrics, name) == value, name
        sizes = "llm_d_epp_per_endpoint_queue_size"
        assert value_of(scene.metrics, sizes, model_server_endpoint="p3-rank-0") == 9
        twin = "inference_pool_per_pod_queue_size"
        assert value_of(scene.metrics, twin, model_server_pod="p3-rank-0") == 9

    play(story, pods=4)


def test_without_a_fresh_endpoint_averages_keep_their_value(play: Play) -> None:
    async def story(scene: Scene) -> None:
        scene.server().page = b"waiting 4\nkv 0.5"
        await asyncio.sleep(1.5)
        scene.server().page = None
        await asyncio.sleep(10)

        assert value_of(scene.metrics, "llm_d_epp_ready_endpoints") == 0
        assert value_of(scene.metrics, "llm_d_epp_average_queue_size") == 4

    play(story)


def test_operators_see_what_is_wrong(play: Play) -> None:
    async def story(scene: Scene) -> None:
        scene.server(2).failure = "HTTP status 404"
        await asyncio.sleep(2)

        assert scene.layer.problem == (
            "1 of 2 endpoints can't be scraped, for example 10.0.0.2:8000 (page-source):"
            " HTTP status 404"
        )

    play(story, pods=2)


def test_all_is_well(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(2)

        assert scene.layer.problem is None

    play(story)
