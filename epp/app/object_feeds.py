"""Objects of a cluster that plugins follow, as the configuration in force says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from epp.framework.data_layer import KubernetesExtractor, KubernetesSource
from epp.support.tasks import TaskOwner, keep_running

Followed = tuple[KubernetesSource, tuple[KubernetesExtractor, ...]]


class Feed(Protocol):
    """Tells extractors of the objects of a source."""

    def run(self) -> Awaitable[None]:
        """Follow them for ever."""


class ObjectFeeds:
    """A task for each source; one whose extractors change begins anew with all objects."""

    def __init__(
        self,
        feed_of: Callable[[KubernetesSource, Sequence[KubernetesExtractor]], Feed],
        tasks: TaskOwner,
    ) -> None:
        self._feed_of = feed_of
        self._tasks = tasks
        self._running: dict[Followed, asyncio.Task[None]] = {}

    def follow(self, sources: Sequence[Followed]) -> None:
        """Follow these from now on, and no others."""
        for gone in self._running.keys() - set(sources):
            self._running.pop(gone).cancel()
        for followed in sources:
            if followed not in self._running:
                source, extractors = followed
                feed = self._feed_of(source, extractors)
                self._running[followed] = self._tasks.spawn(
                    keep_running(source.name, feed.run), name=source.name
                )
