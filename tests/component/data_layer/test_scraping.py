from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from structlog.testing import capture_logs

from epp.data_layer.data_layer import DataLayer
from epp.data_layer.settings import DataLayerSettings
from epp.datastore.datastore import Datastore
from epp.framework.endpoint import Endpoint
from epp.observability.metrics import Metrics
from tests.fakes.data_layer import LoadExtractor, PageSource
from tests.fakes.eventually import eventually
from tests.fakes.metrics.samples import value_of
from tests.fakes.page_server import PageServer, answer, page_server
from tests.fakes.pool import pod_of, pool_of


class Scene:
    """A data layer that scrapes real servers."""

    def __init__(self, layer: DataLayer, datastore: Datastore, metrics: Metrics) -> None:
        self.layer = layer
        self.datastore = datastore
        self.metrics = metrics

    def endpoint(self, server: PageServer) -> Endpoint:
        return self.datastore.snapshot().by_address[f"127.0.0.1:{server.port}"]

    async def fresh(self, server: PageServer, waiting: int) -> None:
        """Return once the endpoint says so many requests wait."""
        endpoint = self.endpoint(server)
        await eventually(
            lambda: not endpoint.is_stale and endpoint.metrics.waiting_queue_size == waiting
        )

    async def stale(self, server: PageServer) -> None:
        await eventually(lambda: self.endpoint(server).is_stale)


@asynccontextmanager
async def scraping(*servers: PageServer, timeout_seconds: float = 0.2) -> AsyncIterator[Scene]:
    datastore = Datastore()
    datastore.set_pool(pool_of(8000))
    with datastore.batch():
        for index, server in enumerate(servers):
            datastore.upsert_pod(pod_of(f"p{index}", "127.0.0.1", fixed_port=server.port))
    metrics = Metrics()
    layer = DataLayer(
        datastore,
        [(PageSource(), [LoadExtractor()])],
        metrics=metrics,
        settings=DataLayerSettings(timeout_seconds=timeout_seconds),
        rng=random.Random(1),
    )
    layer.start()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(layer.run())
        try:
            yield Scene(layer, datastore, metrics)
        finally:
            running.cancel()
            await layer.aclose()


async def test_what_a_server_says_is_known_and_followed() -> None:
    async with page_server() as server, scraping(server) as scene:
        await scene.fresh(server, 1)
        server.reply = answer(b"waiting 7\nkv 0.25")
        await scene.fresh(server, 7)

        assert scene.endpoint(server).metrics.kv_cache_usage == 0.25
        assert server.connections == 1


async def test_a_server_that_hangs_is_asked_once_at_a_time_and_slows_no_other() -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(page_server()) for _ in range(20)]
        hung, others = servers[0], servers[1:]

        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        hung.behaviour = hang
        scene = await stack.enter_async_context(scraping(*servers))
        for server in others:
            await scene.fresh(server, 1)
        before = [len(server.requests) for server in others]
        await eventually(lambda: len(hung.requests) >= 3)

        assert hung.open_connections <= 1
        assert scene.endpoint(hung).is_stale
        for server, asked in zip(others, before, strict=True):
            assert len(server.requests) - asked > len(hung.requests)
            assert not scene.endpoint(server).is_stale


async def test_a_server_that_trickles_is_given_up() -> None:
    async with page_server() as server, scraping(server) as scene:
        await scene.fresh(server, 1)

        async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not writer.transport.is_closing():
                writer.write(b"x")
                await asyncio.sleep(0.001)

        server.behaviour = trickle
        await scene.stale(server)

        assert str(scene.layer.problem).endswith("no answer within 0.2 s")


async def test_a_server_that_dies_and_comes_back_is_two_lines() -> None:
    with capture_logs() as logs:
        async with page_server() as server, scraping(server) as scene:
            await scene.fresh(server, 1)
            port = server.port
            await server.stop()
            await scene.stale(server)
            assert scene.endpoint(server).metrics.waiting_queue_size == 0
            assert value_of(scene.metrics, "llm_d_epp_datalayer_poll_errors_total") >= 1
            await eventually(lambda: scene.layer.problem is not None)

            server.reply = answer(b"waiting 2\nkv 0")
            await server.start(port=port)
            await scene.fresh(server, 2)
            assert scene.layer.problem is None

    assert [line["event"] for line in logs] == [
        "endpoint can't be scraped",
        "endpoint can be scraped again",
    ]
    assert logs[0]["reason"] == "connection refused"


async def test_connections_that_break_are_not_noticed_in_the_data() -> None:
    async with page_server() as server, scraping(server) as scene:
        for waiting in range(2, 12):
            server.drop_connections()
            server.reply = answer(b"waiting %d\nkv 0" % waiting)
            await scene.fresh(server, waiting)

        assert server.connections >= 10


async def test_an_endpoint_that_goes_takes_its_connection_along() -> None:
    async with page_server() as server, scraping(server) as scene:
        await scene.fresh(server, 1)
        scene.datastore.delete_pod("uid-p0")

        await eventually(lambda: server.open_connections == 0)


async def test_a_page_of_another_kind_is_no_data() -> None:
    async with page_server() as server, scraping(server) as scene:
        await scene.fresh(server, 1)
        server.reply = answer(b'[{"numActiveRequests": 2}]')
        await scene.stale(server)

        assert value_of(scene.metrics, "llm_d_epp_datalayer_extract_errors_total") >= 1
        assert value_of(scene.metrics, "llm_d_epp_datalayer_poll_errors_total") == 0
