"""Where this process has its pool from: a file, endpoints of the configuration, or a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import structlog

from epp.app.cluster import Cluster
from epp.app.election import Election
from epp.app.object_feeds import ObjectFeeds
from epp.app.pool_choice import NO_POOL
from epp.discovery.pool_file_source import PoolFileSource
from epp.framework.errors import ConfigError
from epp.support.tasks import TaskOwner, keep_running

if TYPE_CHECKING:
    from epp.app.options import ServeOptions
    from epp.app.picking import Picking
    from epp.app.pool_events import PoolEvents
    from epp.app.source import Source
    from epp.datastore.datastore import Datastore
    from epp.framework.data_layer import EndpointDiscovery
    from epp.gateway.health import HealthState
    from epp.kubernetes.leader_election import ElectionTiming
    from epp.observability.metrics import Metrics

log = structlog.get_logger(__name__)


class PoolFollower:
    """Keeps the datastore in step, and takes part in the election where a cluster has one."""

    def __init__(
        self,
        options: ServeOptions,
        datastore: Datastore,
        picking: Picking,
        *,
        events: PoolEvents,
        health: HealthState,
        metrics: Metrics,
        tasks: TaskOwner,
        election_timing: ElectionTiming,
        on_lost_lease: Callable[[], None],
    ) -> None:
        self._options = options
        self._datastore = datastore
        self._picking = picking
        self._events = events
        self._health = health
        self._observer = metrics.cluster
        self._tasks = tasks
        self._election_timing = election_timing
        self._on_lost_lease = on_lost_lease
        self._source: Source | None = None
        self._feeds: ObjectFeeds | None = None
        self._election: Election | None = None
        self.cluster: Cluster | None = None
        """Where the pool is; None: not in a cluster, or not asked for yet."""

    @property
    def leads(self) -> bool | None:
        """Whether this replica is the leader; None: nobody is elected."""
        return None if self._election is None else self._election.leads

    def problems(self) -> list[str | None]:
        """What is wrong there now, for people; None: nothing."""
        followed = (self._source, self._election)
        return [each.problem for each in followed if each is not None]

    async def start(self) -> None:
        """Follow the pool from here on. Raises `ConfigError` for what can't work."""
        options = self._options
        if self._picking.discovery is not None:
            self._follow_listed_endpoints(self._picking.discovery)
        elif options.pool_file is not None:
            file = PoolFileSource(options.pool_file, self._datastore, self._events)
            file.load()
            self._follow(file, "pool file")
        elif options.pool.is_in_cluster:
            self.cluster = await Cluster.connect(options)
            self._follow_cluster(self.cluster)
        else:
            raise ConfigError(f"{NO_POOL}, or dataLayer.discovery in the configuration")

    def follow_plugin_sources(self) -> None:
        """Follow the objects that the plugins in force want to know of."""
        if self._feeds is not None:
            self._feeds.follow(self._picking.data_layer.kubernetes_sources)

    async def hand_over(self) -> None:
        """Leave the lease to another replica."""
        if self._election is not None:
            await self._election.end()

    async def close(self) -> None:
        """Close all connections; the tasks have ended before."""
        if self.cluster is not None:
            await self.cluster.close()

    def _follow_cluster(self, cluster: Cluster) -> None:
        self._follow(cluster.source(self._datastore, self._observer), "pool in the cluster")
        objectives = cluster.objectives(self._datastore, self._observer)
        if objectives is not None:
            self._tasks.spawn(keep_running("objectives", objectives.run), "objectives")
        feed_of = partial(cluster.object_feed, observer=self._observer)
        self._feeds = ObjectFeeds(feed_of, self._tasks)
        self.follow_plugin_sources()
        if self._options.elects_leader:
            self._stand_for_election(cluster)

    def _stand_for_election(self, cluster: Cluster) -> None:
        self._events.leadership_changed(False)
        elector = cluster.elector(self._events.leadership_changed, self._election_timing)
        self._health.doubt_leader(lambda: elector.is_leader)
        self._election = Election(
            elector,
            wait_synced=self._datastore.wait_synced,
            on_lost=self._on_lost_lease,
            tasks=self._tasks,
        )

    def _follow_listed_endpoints(self, discovery: EndpointDiscovery) -> None:
        if self._options.elects_leader:
            log.warning("--ha-enable-leader-election has no effect with dataLayer.discovery")
        file = PoolFileSource(
            discovery.path,
            self._datastore,
            self._events,
            default_namespace=self._options.pool.namespace,
            default_pool_name=self._options.pool.name_in_cluster,
        )
        file.load()
        if discovery.watch_file:
            self._follow(file, "endpoint file")
        else:
            self._source = file

    def _follow(self, source: Source, name: str) -> None:
        self._source = source
        self._tasks.spawn(keep_running(name, source.run), name)
