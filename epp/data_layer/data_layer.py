"""The data layer of a process: follows the pool, fills the state of its endpoints."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from epp.data_layer.collector import Collector
from epp.data_layer.listeners import Listeners
from epp.data_layer.pace import Pace
from epp.data_layer.pages import Pages
from epp.data_layer.poll import PollContext
from epp.data_layer.polled_source import PolledSource
from epp.data_layer.readability_log import ReadabilityLog
from epp.data_layer.settings import (
    SHORTEST_INTERVAL_SECONDS,
    SWEEP_SECONDS,
    DataLayerSettings,
)
from epp.data_layer.timetable import Timetable
from epp.data_layer.wiring import Attachment, Wiring, wire

if TYPE_CHECKING:
    from epp.data_layer.page import PageOpener
    from epp.datastore.datastore import Datastore
    from epp.datastore.snapshot import Change
    from epp.framework.data_layer import EndpointListener, KubernetesExtractor, KubernetesSource
    from epp.observability.metrics import Metrics

log = structlog.get_logger(__name__)


class DataLayer:
    """Sources, their extractors and the listeners of endpoints, at work."""

    def __init__(
        self,
        datastore: Datastore,
        sources: Sequence[Attachment],
        listeners: Sequence[EndpointListener] = (),
        *,
        metrics: Metrics,
        settings: DataLayerSettings,
        rng: random.Random,
        now: Callable[[], float] = time.monotonic,
        pages: PageOpener | None = None,
    ) -> None:
        self._wiring = wire(sources, listeners)
        self._datastore = datastore
        self._metrics = metrics
        self._settings = settings
        self._now = now
        timetable = Timetable(now)
        self._pages = pages or Pages(
            timetable,
            now,
            timeout_seconds=self._settings.timeout_seconds,
            max_connections=self._settings.max_connections,
        )
        self._pace = Pace(self._settings, now, self._hasten_soon)
        context = PollContext(
            pages=self._pages,
            timetable=timetable,
            report=ReadabilityLog(),
            timeout=self._settings.timeout_seconds,
            rng=rng,
            now=now,
        )
        self._collector = Collector(context, self._pace)
        self._listeners = Listeners(metrics)
        self._unsubscribe: Callable[[], None] | None = None
        self._gauges_due = now() + min(1.0, self._settings.gauge_refresh_seconds)
        self.note_request: Callable[[], None] = self._pace.note_request
        """To be called for every request that is scheduled: endpoints are asked often while there
        are any, and at once again when the first one comes after a pause."""

    @property
    def kubernetes_sources(
        self,
    ) -> tuple[tuple[KubernetesSource, tuple[KubernetesExtractor, ...]], ...]:
        """The sources that somebody with a client of the cluster has to run."""
        return self._wiring.kubernetes

    @property
    def is_scraping(self) -> bool:
        """Whether metrics of endpoints are read, so that without them they are stale."""
        return self._collector.is_scraping

    @property
    def problem(self) -> str | None:
        """What is wrong with scraping, in a sentence."""
        broken = self._collector.unreadable()
        if not broken:
            return None
        count = len({poll.endpoint.id for poll in broken})
        poll = broken[0]
        return (
            f"{count} of {len(self._collector)} endpoints can't be scraped, for example"
            f" {poll.endpoint.address} ({poll.source.name}): {poll.last_error or 'no answer yet'}"
        )

    def start(self) -> None:
        """Begin with the endpoints there are; needs a running event loop."""
        if self._settings.refresh_seconds < SHORTEST_INTERVAL_SECONDS:
            log.warning(
                "--refresh-metrics-interval is raised to its least value",
                interval=self._settings.refresh_seconds,
                least=SHORTEST_INTERVAL_SECONDS,
            )
        self._unsubscribe = self._datastore.subscribe(self._changed)
        self._collector.add(self._datastore.snapshot().endpoints)
        self._apply(self._wiring)

    def reconfigure(
        self, sources: Sequence[Attachment], listeners: Sequence[EndpointListener] = ()
    ) -> None:
        """Change over to these. Sources that stay keep their connections, endpoints their data."""
        self._wiring = wire(sources, listeners)
        self._apply(self._wiring)

    async def run(self) -> None:
        """Judge what is late and what is stale, and keep the pool's gauges, for ever."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._collector.sweep()
            self._metrics.scrapes.stale_endpoints.set(self._collector.stale_endpoints)
            now = self._now()
            if now >= self._gauges_due:
                self._gauges_due = now + self._settings.gauge_refresh_seconds
                self._metrics.pool.refresh(oldest=now - self._freshness())

    async def aclose(self) -> None:
        """Stop asking, and close every connection."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._collector.close()
        await self._pages.aclose()

    def _apply(self, wiring: Wiring) -> None:
        self._collector.set_sources(
            [
                PolledSource(source, extractors, self._metrics.scrapes)
                for source, extractors in wiring.polled
            ]
        )
        is_scraping = self._collector.is_scraping
        self._metrics.pool.follow(
            (lambda: self._datastore.snapshot().endpoints) if is_scraping else None
        )
        self._listeners.replace(wiring.listeners, self._datastore.snapshot().endpoints)

    def _changed(self, change: Change) -> None:
        for endpoint in change.removed:
            self._collector.remove(endpoint)
            self._listeners.removed(endpoint)
        for endpoint in change.replaced:
            self._collector.replace(endpoint)
            self._listeners.replaced(endpoint)
        self._collector.add(change.added)
        for endpoint in change.added:
            self._listeners.added(endpoint)

    def _hasten_soon(self) -> None:
        # Not on the path of the request that ended the pause.
        asyncio.get_running_loop().call_soon(self._collector.hasten)

    def _freshness(self) -> float:
        # Metrics of a pool that is asked less often than that are not old.
        return max(self._settings.fresh_seconds, 2 * self._collector.longest_interval)
