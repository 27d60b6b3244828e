"""A thousand endpoints, a thousand models: what is on the page, and what it costs, has an end."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import pytest

from epp.framework.request import TerminationCause
from epp.framework.usage import Usage
from epp.observability.exposition import SLICE_BYTES
from epp.observability.instruments import MAX_SERIES_PER_FAMILY
from epp.observability.metrics import MOST_LEFT, Metrics
from epp.observability.request_series import (
    MAX_LABEL_SETS,
    MAX_LABEL_SETS_WITHOUT_FAIRNESS,
    MAX_PRIORITIES,
)
from epp.testing import endpoint_of
from tests.fakes.metrics.pages import page_of

THOUSAND = 1000
REQUESTS = 12 * THOUSAND
MOST_LABEL_SETS = MAX_LABEL_SETS + MAX_LABEL_SETS_WITHOUT_FAIRNESS + MAX_PRIORITIES
USAGE = Usage(7, 5, 12, 3)


def serve(metrics: Metrics, number: int, *, fairness_id: str = "f") -> None:
    """One request in full; the models and endpoints of a thousand are paired in every way."""
    model, lap = f"model-{number % THOUSAND}", number // THOUSAND
    metrics.scheduled(0.001, model, endpoint_of(f"pod-{(number + lap) % THOUSAND}"))
    request = metrics.request(model, model, fairness_id, lap)
    request.admitted(1000)
    request.running_started()
    request.piece_followed(0.1)
    request.error("ModelServerError")
    metrics.terminated(TerminationCause.NATURAL)
    request.running_ended()
    request.completed(seconds=1, response_bytes=1, streaming=True, ttft_seconds=0.1, usage=USAGE)


def name_of(line: bytes) -> bytes:
    return line.partition(b" ")[0].partition(b"{")[0]


def series_by_metric(slices: Sequence[bytes]) -> Counter[str]:
    lines = (line for each in slices for line in each.splitlines() if not line.startswith(b"#"))
    counted = Counter(map(name_of, lines))
    return Counter({name.decode(): count for name, count in counted.items()})


def lines_of(metrics: Metrics) -> int:
    return sum(each.count(b"\n") for each in metrics.exposition()[0])


def pool_of(size: int, metrics: Metrics) -> None:
    endpoints = [endpoint_of(f"pod-{number}") for number in range(size)]
    metrics.pool.changed("pool", size)
    metrics.pool.follow(lambda: endpoints)


@dataclass(frozen=True)
class Crowd:
    """What is left of many requests of many tenants."""

    metrics: Metrics
    slices: Sequence[bytes]
    series: Counter[str]


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    metrics = Metrics()
    pool_of(THOUSAND, metrics)
    for number in range(REQUESTS):
        serve(metrics, number, fairness_id=f"tenant-{number % 7}")
    slices = list(metrics.exposition()[0])
    return Crowd(metrics, slices, series_by_metric(slices))


async def scraped(metrics: Metrics) -> tuple[bytes, int]:
    """The page, and how many bytes came over the wire."""
    async with (
        page_of(metrics) as port,
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        body = await response.read()
        assert response.headers["Content-Encoding"] == "gzip"
        return gzip.decompress(body), len(body)


def test_every_metric_has_a_bounded_number_of_series(crowd: Crowd) -> None:
    series = crowd.series

    requests = series["llm_d_epp_request_total"]
    assert MAX_LABEL_SETS < requests <= MOST_LABEL_SETS
    assert series["llm_d_epp_request_error_total"] == requests
    assert series["llm_d_epp_request_duration_seconds_count"] == requests
    assert series["inference_objective_request_duration_seconds_count"] <= THOUSAND + 1
    attempts = series["llm_d_epp_scheduler_attempts_total"]
    assert MAX_SERIES_PER_FAMILY <= attempts <= MAX_SERIES_PER_FAMILY + THOUSAND
    assert series["inference_extension_scheduler_attempts_total"] == attempts
    assert series["llm_d_epp_per_endpoint_queue_size"] == THOUSAND


def test_no_request_is_lost_where_labels_are(crowd: Crowd) -> None:
    lines = [line for each in crowd.slices for line in each.splitlines()]

    for name in (b"request_total", b"scheduler_attempts_total", b"request_error_total"):
        values = [line for line in lines if line.startswith(b"llm_d_epp_" + name + b"{")]
        assert sum(int(line.rpartition(b" ")[2]) for line in values) == REQUESTS, name


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text"])
def test_the_page_comes_in_slices_that_each_hold_up_requests_for_a_moment_only(
    crowd: Crowd, accept: str
) -> None:
    slices, content_type = crowd.metrics.exposition(accept)
    sizes = [len(each) for each in slices]

    assert content_type.startswith(accept)
    assert max(sizes) < 2 * SLICE_BYTES
    assert sum(sizes) < 128 * 2**20


def test_more_tenants_and_more_requests_do_not_make_the_page_larger(crowd: Crowd) -> None:
    metrics = crowd.metrics
    for number in range(THOUSAND):
        serve(metrics, number, fairness_id=f"another-{number}")
    before = lines_of(metrics)

    for number in range(2 * THOUSAND):
        serve(metrics, number, fairness_id=f"yet another-{number}")

    assert lines_of(metrics) <= before + THOUSAND  # pairs of endpoint and any model


async def test_a_scraper_that_takes_gzip_gets_a_small_part_of_it() -> None:
    metrics = Metrics()
    pool_of(THOUSAND, metrics)
    for number in range(THOUSAND):
        serve(metrics, number)

    page, sent = await scraped(metrics)

    assert sent < len(page) / 15


def test_pods_that_come_and_go_leave_nothing_behind() -> None:
    metrics = Metrics()
    for generation in range(5):
        pods = [endpoint_of(f"pod-{generation}-{number}") for number in range(THOUSAND)]
        metrics.pool.changed("pool", THOUSAND)
        metrics.pool.follow(lambda pods=pods: pods)  # type: ignore[misc]  # of this generation
        for pod in pods:
            metrics.scheduled(0.001, "m", pod)
        metrics.endpoints_left(pods)

    series = series_by_metric(list(metrics.exposition()[0]))
    assert series["llm_d_epp_scheduler_attempts_total"] <= MOST_LEFT
    assert series["llm_d_epp_per_endpoint_queue_size"] == THOUSAND
