from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from epp.data_layer.data_layer import DataLayer
from epp.data_layer.settings import DataLayerSettings
from epp.data_layer.wiring import Attachment
from epp.datastore.datastore import Datastore
from epp.framework.data_layer import EndpointListener
from epp.framework.endpoint import Endpoint
from epp.observability.metrics import Metrics
from tests.fakes.data_layer import FakePages, FakeServer, LoadExtractor, PageSource
from tests.fakes.pool import pod_of, pool_of
from tests.fakes.virtual_time import in_virtual_time


class Scene:
    """A data layer at work on a pool of its own, in virtual time."""

    def __init__(self, layer: DataLayer, datastore: Datastore, metrics: Metrics) -> None:
        self.layer = layer
        self.datastore = datastore
        self.metrics = metrics
        self.pages = FakePages()
        self.stood_still = 0.0

    def add_pods(self, count: int, first: int = 1) -> list[Endpoint]:
        """Pods `p1`, `p2` ... appear at once, at 10.0.0.1, 10.0.0.2 ..."""
        with self.datastore.batch():
            for number in range(first, first + count):
                self.datastore.upsert_pod(pod_of(f"p{number}", f"10.0.0.{number}"))
        return [self.endpoint(number) for number in range(first, first + count)]

    def endpoint(self, number: int = 1) -> Endpoint:
        return self.datastore.snapshot().by_address[f"10.0.0.{number}:8000"]

    def server(self, number: int = 1) -> FakeServer:
        return self.pages.server(f"10.0.0.{number}:8000")

    def now(self) -> float:
        """What the data layer takes for the time."""
        return asyncio.get_running_loop().time() + self.stood_still


Story = Callable[[Scene], Awaitable[None]]
Play = Callable[..., None]


def scraping() -> list[Attachment]:
    return [(PageSource(), [LoadExtractor()])]


@asynccontextmanager
async def a_scene(
    sources: Sequence[Attachment] | None,
    listeners: Sequence[EndpointListener],
    settings: DataLayerSettings,
    pods: int,
) -> AsyncIterator[Scene]:
    scenes: list[Scene] = []

    def clock() -> float:
        now = asyncio.get_running_loop().time()
        return scenes[0].now() if scenes else now

    datastore = Datastore(now=clock)
    datastore.set_pool(pool_of(8000))
    metrics = Metrics(now=clock)
    pages = FakePages()
    layer = DataLayer(
        datastore,
        scraping() if sources is None else sources,
        listeners,
        metrics=metrics,
        settings=settings,
        rng=random.Random(1),
        now=clock,
        pages=pages,
    )
    scene = Scene(layer, datastore, metrics)
    scene.pages = pages
    scenes.append(scene)
    datastore.subscribe(lambda change: metrics.pool.changed("pool", len(change.new.endpoints)))
    scene.add_pods(pods)
    layer.start()
    running = asyncio.create_task(layer.run())
    try:
        yield scene
    finally:
        assert not running.done(), "the data layer ended"
        running.cancel()
        await asyncio.wait({running})
        await layer.aclose()
        assert pages.is_closed


@pytest.fixture
def play() -> Play:
    """Runs a story about a data layer, with sources, listeners and settings of its choice."""

    def run(
        story: Story,
        sources: Sequence[Attachment] | None = None,
        listeners: Sequence[EndpointListener] = (),
        *,
        pods: int = 1,
        **settings: Any,
    ) -> None:
        async def told() -> None:
            chosen = DataLayerSettings(**settings)
            async with a_scene(sources, listeners, chosen, pods) as scene:
                await story(scene)

        in_virtual_time(told())

    return run
