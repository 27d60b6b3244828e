from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from epp.framework.data_layer import HttpTarget
from epp.framework.endpoint import Endpoint
from tests.fakes.data_layer import (
    AttributeExtractor,
    FailingExtractor,
    HeavyExtractor,
    LoadExtractor,
    PageSource,
)
from tests.fakes.metrics.samples import value_of
from tests.fakes.pool import pod_of
from tests.unit.data_layer.conftest import Play, Scene

NEVER_IDLE = 1e9


def test_an_endpoint_is_asked_as_soon_as_it_appears(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(3)
        appeared = scene.now()
        scene.add_pods(1, first=2)
        await asyncio.sleep(1)

        assert scene.server(2).asked_at[0] == pytest.approx(appeared, abs=1e-9)

    play(story)


def test_a_pool_that_appears_at_once_is_asked_in_turns_and_then_evenly(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(10)
        servers = [scene.server(number) for number in range(1, 201)]
        first = sorted(server.asked_at[0] for server in servers)
        later = sorted(t for server in servers for t in server.asked_at if 5 <= t < 10)

        assert first[0] == 0
        assert first[-1] < 0.2
        assert max(sum(t <= other < t + 0.01 for other in first) for t in first) <= 25
        for start in range(500):
            within = [t for t in later if 0 <= t - 5 - start / 100 < 0.01]
            assert 25 <= len(within) <= 55

    play(story, pods=200, idle_after_seconds=NEVER_IDLE)


@pytest.mark.parametrize(
    ("pods", "turns"), [(4, 1), (12, 1), (100, 9), (240, 20)], ids=["4", "12", "100", "240"]
)
@pytest.mark.parametrize(("idle_after", "interval"), [(NEVER_IDLE, 0.05), (0.0, 1.0)])
def test_a_pool_is_asked_in_even_turns_of_several(
    play: Play, pods: int, turns: int, idle_after: float, interval: float
) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(4)
        asked: Counter[float] = Counter()
        for number in range(1, pods + 1):
            asked.update(round(t, 4) for t in scene.server(number).asked_at if 2 < t < 4)

        assert len(asked) == pytest.approx(2 / interval * turns, rel=0.01)
        assert max(asked.values()) <= 13

    play(story, pods=pods, idle_after_seconds=idle_after)


def test_with_traffic_an_endpoint_is_asked_every_50_ms(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(5)

        assert len(scene.server().asked_at) == pytest.approx(100, abs=2)
        assert scene.server().gaps[5:] == pytest.approx([0.05] * len(scene.server().gaps[5:]))

    play(story, idle_after_seconds=NEVER_IDLE)


def test_without_traffic_it_is_asked_slowly_until_the_first_request(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(20)
        idle = [t for t in scene.server().asked_at if t > 11]
        assert len(idle) == pytest.approx(9, abs=1)

        requested = scene.now()
        scene.layer.note_request()
        await asyncio.sleep(5)
        busy = [t for t in scene.server().asked_at if t > requested]
        assert busy[0] - requested <= 0.05
        assert len(busy) == pytest.approx(100, abs=2)

        await asyncio.sleep(20)
        again = [t for t in scene.server().asked_at if t > requested + 15]
        assert len(again) == pytest.approx(10, abs=1)

    play(story)


def test_a_request_now_and_then_keeps_the_pace(play: Play) -> None:
    async def story(scene: Scene) -> None:
        for _ in range(10):
            await asyncio.sleep(4)
            scene.layer.note_request()

        assert max(scene.server().gaps) < 0.11

    play(story)


def test_scrapes_of_a_large_pool_are_bounded_and_the_interval_says_so(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(4)
        asked = sum(2 <= t < 4 for number in range(1, 101) for t in scene.server(number).asked_at)

        assert asked == pytest.approx(2 * 500, rel=0.03)
        assert value_of(
            scene.metrics, "epp_scrape_interval_seconds", source_type="page-source"
        ) == pytest.approx(0.2)

    play(story, pods=100, idle_after_seconds=NEVER_IDLE, max_scrapes_per_second=500)


@pytest.mark.parametrize(
    ("interval", "ticks"),
    [
        pytest.param(0.12, 2, id="D14-120ms"),
        pytest.param(0.13, 3, id="D14-130ms"),
        pytest.param(0.02, 1, id="D14-20ms"),
        pytest.param(0.125, 3, id="half a tick goes up"),
        pytest.param(30.0, 600, id="30s"),
    ],
)
def test_an_interval_is_a_number_of_ticks(play: Play, interval: float, ticks: int) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(100)
        gaps = scene.server().gaps[1:]

        assert gaps == pytest.approx([ticks * 0.05] * len(gaps))

    play(story, [(PageSource(interval=interval), [LoadExtractor()])])


def test_a_shorter_interval_of_a_source_lowers_the_tick_of_all(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(9)

        assert scene.server().gaps[1:] == pytest.approx([0.1] * len(scene.server().gaps[1:]))

    every = (PageSource("every"), [LoadExtractor()])
    own = (PageSource("own", interval=0.1, path="/own"), [AttributeExtractor()])
    play(story, [every, own], refresh_seconds=0.3)


def test_sources_of_one_endpoint_do_not_wait_for_each_other(play: Play) -> None:
    async def story(scene: Scene) -> None:
        hung = scene.pages.server("10.0.0.1:8000/gpu")
        hung.page = None
        await asyncio.sleep(5)

        assert max(scene.server().gaps) < 0.11
        assert hung.most_in_flight == 1
        assert not scene.endpoint().is_stale

    gpu = (PageSource("gpu", path="/gpu"), [AttributeExtractor()])
    play(story, [(PageSource(), [LoadExtractor()]), gpu])


def test_one_hung_endpoint_of_twenty_is_asked_once_at_a_time_and_slows_no_other(
    play: Play,
) -> None:
    async def story(scene: Scene) -> None:
        scene.server(7).delay = 10
        await asyncio.sleep(9)

        for number in set(range(1, 21)) - {7}:
            assert max(scene.server(number).gaps) <= 0.1
        assert scene.server(7).most_in_flight == 1
        assert [endpoint.is_stale for endpoint in scene.datastore.snapshot().endpoints].count(
            True
        ) == 1

    play(story, pods=20)


def test_a_dead_endpoint_is_asked_about_once_a_second(play: Play) -> None:
    async def story(scene: Scene) -> None:
        scene.server().failure = "connection refused"
        await asyncio.sleep(20)

        assert 20 <= len(scene.server().asked_at) <= 32
        assert scene.server().gaps[0] < 0.2

    play(story)


def test_a_slow_endpoint_rests_as_long_as_it_takes(play: Play) -> None:
    async def story(scene: Scene) -> None:
        scene.server().delay = 0.8
        await asyncio.sleep(1)
        for _ in range(150):
            await asyncio.sleep(0.1)
            assert not scene.endpoint().is_stale

        assert scene.server().gaps == pytest.approx([1.6] * len(scene.server().gaps))

    play(story)


def test_a_page_that_takes_long_to_read_is_asked_for_less_often(play: Play) -> None:
    async def story(scene: Scene) -> None:
        heavy.take = lambda: setattr(scene, "stood_still", scene.stood_still + 0.2)
        await asyncio.sleep(5)

        assert min(scene.server().gaps[1:]) > 0.15

    heavy = HeavyExtractor()
    play(story, [(PageSource(), [heavy])], idle_after_seconds=NEVER_IDLE)


def test_an_endpoint_that_is_gone_is_written_to_no_more(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        endpoint, server = scene.endpoint(), scene.server()
        server.delay = 0.5
        await asyncio.sleep(0.06)
        assert server.in_flight
        asked = len(server.asked_at)
        before = endpoint.state.metrics
        scene.datastore.delete_pod("uid-p1")
        await asyncio.sleep(5)

        assert len(server.asked_at) == asked
        assert endpoint.state.metrics is before
        assert server.in_flight == 0

    play(story)


def test_an_endpoint_with_other_labels_goes_on_as_the_new_object(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        scene.datastore.upsert_pod(replace(pod_of("p1", "10.0.0.1"), labels={"a": "b"}))
        scene.server().page = b"waiting 9\nkv 0"
        await asyncio.sleep(0.2)

        assert scene.endpoint().labels == {"a": "b"}
        assert scene.endpoint().metrics.waiting_queue_size == 9
        assert scene.server().opened == 1
        assert max(scene.server().gaps) <= 0.1

    play(story)


def test_other_metadata_may_mean_another_page(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        scene.datastore.upsert_pod(
            replace(pod_of("p1", "10.0.0.1"), labels={"metrics-port": "9400"})
        )
        await asyncio.sleep(1)
        assert len(scene.pages.server("10.0.0.1:9400").asked_at) > 15
        assert not [t for t in scene.server().asked_at if t > 1.06]

    play(story)


@pytest.mark.parametrize("fault", [ZeroDivisionError, SystemExit, asyncio.CancelledError])
def test_a_failed_extractor_harms_no_other_and_is_counted(
    play: Play, fault: type[BaseException]
) -> None:
    async def story(scene: Scene) -> None:
        with capture_logs() as lines:
            await asyncio.sleep(1)

        warnings = [line for line in lines if line["log_level"] == "warning"]
        (told,) = [line for line in warnings if line["event"] == "plugin failed"]
        assert told["plugin"] == "failing-extractor"
        assert fault.__name__ in told["exception"]
        assert scene.endpoint().metrics.waiting_queue_size == 1
        assert value_of(
            scene.metrics,
            "llm_d_epp_datalayer_extract_errors_total",
            source_type="page-source",
            extractor_type="failing-extractor",
        ) == len(scene.server().asked_at)

    play(story, [(PageSource(), [FailingExtractor(fault), LoadExtractor()])])


@pytest.mark.parametrize("case", ["D7"])
def test_a_missing_value_costs_one_error_and_the_rest_is_fresh(play: Play, case: str) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        before = scene.endpoint().metrics
        scene.server().page = b"waiting 6"
        asked = len(scene.server().asked_at)
        await asyncio.sleep(0.06)
        after = scene.endpoint().metrics

        assert (after.waiting_queue_size, after.kv_cache_usage) == (6, 0.5)
        assert before.updated_at is not None
        assert after.updated_at is not None
        assert after.updated_at > before.updated_at
        errors = value_of(scene.metrics, "llm_d_epp_datalayer_extract_errors_total")
        assert errors == len(scene.server().asked_at) - asked

    play(story)


@pytest.mark.parametrize("case", ["D8"])
def test_a_failed_poll_changes_nothing_and_is_counted_once(play: Play, case: str) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)
        before = scene.endpoint().metrics
        scene.server().failure = "HTTP status 503"
        await asyncio.sleep(0.06)

        assert scene.endpoint().metrics is before
        for prefix in ("llm_d_epp", "llm_d_inference_scheduler"):
            name = f"{prefix}_datalayer_poll_errors_total"
            assert value_of(scene.metrics, name, source_type="page-source") == 1

    play(story)


def test_what_is_asked_for_and_what_is_done_instead_is_said(play: Play) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(1)

        assert len(scene.server().asked_at) == pytest.approx(20, abs=1)

    own = (PageSource("own", interval=0.12, path="/own"), [AttributeExtractor()])
    with capture_logs() as logs:
        play(story, [(PageSource(), [LoadExtractor()]), own], refresh_seconds=0.01)

    raised, rounded = logs
    assert raised["event"] == "--refresh-metrics-interval is raised to its least value"
    assert (rounded["source"], rounded["interval"], rounded["used"]) == ("own", 0.12, 0.1)


def test_a_source_that_fails_to_name_its_page_is_asked_again(play: Play) -> None:
    class Fickle(PageSource):
        fails = True

        def target(self, endpoint: Endpoint) -> HttpTarget:
            if self.fails:
                raise KeyError("port")
            return super().target(endpoint)

    source = Fickle()

    async def story(scene: Scene) -> None:
        await asyncio.sleep(3)
        assert scene.endpoint().is_stale
        assert str(scene.layer.problem).endswith("page-source failed: KeyError")
        source.fails = False
        await asyncio.sleep(1.1)
        assert not scene.endpoint().is_stale

    play(story, [(source, [LoadExtractor()])])
