"""Which objects of a cluster are followed as the configuration changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from epp.app.object_feeds import Followed, ObjectFeeds
from epp.framework.data_layer import KubernetesEvent, KubernetesExtractor, KubernetesSource
from epp.support.tasks import TaskOwner


class Pods(KubernetesSource):
    type = "pods"
    version = "v1"
    kind = "Pod"


class Follower(KubernetesExtractor):
    type = "follower"

    def extract_object(self, event: KubernetesEvent) -> None: ...


class Feeds:
    """Feeds that only tell which of them run."""

    def __init__(self) -> None:
        self.begun: list[Followed] = []
        self.at_work: list[Followed] = []

    def feed_of(self, source: KubernetesSource, extractors: Sequence[KubernetesExtractor]) -> _Feed:
        return _Feed(self, (source, tuple(extractors)))


class _Feed:
    def __init__(self, feeds: Feeds, followed: Followed) -> None:
        self._feeds = feeds
        self._followed = followed

    async def run(self) -> None:
        self._feeds.begun.append(self._followed)
        self._feeds.at_work.append(self._followed)
        try:
            await asyncio.Event().wait()
        finally:
            self._feeds.at_work.remove(self._followed)


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    owner = TaskOwner()
    yield owner
    await owner.aclose()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_every_source_is_followed(tasks: TaskOwner) -> None:
    feeds = Feeds()
    sources: list[Followed] = [(Pods(), (Follower(),)), (Pods(), ())]

    ObjectFeeds(feeds.feed_of, tasks).follow(sources)
    await turns()

    assert feeds.at_work == sources


async def test_what_stays_the_same_goes_on(tasks: TaskOwner) -> None:
    feeds = Feeds()
    followed: Followed = (Pods(), (Follower(),))
    running = ObjectFeeds(feeds.feed_of, tasks)

    for _ in range(2):
        running.follow([followed])
        await turns()

    assert feeds.begun == [followed]


async def test_another_extractor_is_told_of_all_objects(tasks: TaskOwner) -> None:
    feeds, source = Feeds(), Pods()
    before: Followed = (source, (Follower(),))
    after: Followed = (source, (Follower(),))
    running = ObjectFeeds(feeds.feed_of, tasks)

    for followed in (before, after):
        running.follow([followed])
        await turns()

    assert feeds.begun == [before, after]
    assert feeds.at_work == [after]


async def test_a_source_that_is_taken_away_is_followed_no_more(tasks: TaskOwner) -> None:
    feeds = Feeds()
    running = ObjectFeeds(feeds.feed_of, tasks)
    running.follow([(Pods(), (Follower(),))])
    await turns()

    running.follow([])
    await turns()

    assert feeds.at_work == []
    assert len(tasks) == 0
