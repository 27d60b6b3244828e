"""What a scrape costs, in things that can be counted."""

from __future__ import annotations

import asyncio
import cProfile
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import count
from types import CodeType
from typing import Any

import uvloop

from epp.data_layer.data_layer import DataLayer
from epp.data_layer.settings import DataLayerSettings
from epp.datastore.datastore import Datastore
from epp.observability.metrics import Metrics
from epp.plugins.extractors.core_metrics import CoreMetricsExtractor
from epp.testing import built
from tests.fakes.data_layer import PageSource
from tests.fakes.eventually import eventually
from tests.fakes.page_server import PageServer, answer, page_server
from tests.fakes.pool import pod_of, pool_of

ENDPOINTS = 12
SCRAPES = 10 * ENDPOINTS
NEVER_IDLE = 1e9
NUMBERS = count()
PAGE = (
    b"".join(b'vllm:e2e_seconds_bucket{le="%d"} %%(n)d.0\n' % bound for bound in range(200))
    + b"# TYPE vllm:num_requests_running gauge\n"
    b'vllm:num_requests_running{engine="0"} %(n)d.0\n'
    b"# TYPE vllm:num_requests_waiting gauge\n"
    b'vllm:num_requests_waiting{engine="0"} %(n)d.0\n'
    b"# TYPE vllm:kv_cache_usage_perc gauge\n"
    b'vllm:kv_cache_usage_perc{engine="0"} 0.%(n)d\n'
    b"# TYPE vllm:cache_config_info gauge\n"
    b'vllm:cache_config_info{block_size="16",num_gpu_blocks="27000"} 1.0\n'
)


async def keep_changing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(PAGE % {b"n": next(NUMBERS)}))


class Cost:
    """What happened while a pool was scraped."""

    def __init__(self, profile: cProfile.Profile, scrapes: int, tasks: int) -> None:
        self.scrapes = scrapes
        self.tasks = tasks
        self._built_in: Counter[str] = Counter()
        self.own_calls = 0
        for entry in profile.getstats():
            if isinstance(entry.code, CodeType):
                self.own_calls += entry.callcount * ("/epp/" in entry.code.co_filename)
            else:
                self._built_in[entry.code] += entry.callcount

    def calls(self, method: str) -> int:
        return sum(count for name, count in self._built_in.items() if f"'{method}'" in name)


async def scraped() -> Cost:
    """Scrape a pool whose pages change, for a while."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(page_server()) for _ in range(ENDPOINTS)]
        for server in servers:
            server.behaviour = keep_changing
        metrics = Metrics()
        layer = DataLayer(
            pool_at(servers),
            [(PageSource(), [built(CoreMetricsExtractor)])],
            metrics=metrics,
            settings=DataLayerSettings(idle_after_seconds=NEVER_IDLE),
            rng=random.Random(1),
        )
        layer.start()
        pages = metrics.scrapes.duration("page-source")
        await eventually(lambda: sum(pages.counts) >= 5 * ENDPOINTS)

        tasks: list[object] = []

        def made(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
            tasks.append(work)
            return asyncio.Task(work, loop=loop, **more)

        asyncio.get_running_loop().set_task_factory(made)
        before, profile = sum(pages.counts), cProfile.Profile()
        with profile:
            await eventually(lambda: sum(pages.counts) >= before + SCRAPES)
        await layer.aclose()
        return Cost(profile, sum(pages.counts) - before, len(tasks))


def test_a_scrape_is_one_send_and_one_read_and_few_calls() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        cost = runner.run(scraped())

    assert cost.tasks == 0
    # Some were under way when counting began, or ended.
    assert abs(cost.calls("send") - cost.scrapes) <= ENDPOINTS
    assert abs(cost.calls("recv") - cost.scrapes) <= ENDPOINTS
    assert cost.calls("find") <= 16 * cost.scrapes
    assert cost.own_calls <= 70 * cost.scrapes


def pool_at(servers: Sequence[PageServer]) -> Datastore:
    datastore = Datastore()
    datastore.set_pool(pool_of(8000))
    with datastore.batch():
        for index, server in enumerate(servers):
            datastore.upsert_pod(pod_of(f"p{index}", "127.0.0.1", fixed_port=server.port))
    return datastore
