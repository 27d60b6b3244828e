"""One Endpoint Picker process: builds every object, owns every task, starts and ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TextIO, cast

import structlog

from epp import __version__
from epp.admin.configuration_view import ConfigurationView
from epp.admin.console_pages import ConsolePages
from epp.admin.decision_pages import DecisionPages
from epp.admin.pool_view import PoolView, view_pool
from epp.app.assembly import build_request_path
from epp.app.cluster import Cluster
from epp.app.happenings import Standing, Watchman
from epp.app.listeners import BoundPorts, Listeners
from epp.app.metrics_access import metrics_guard
from epp.app.object_feeds import ObjectFeeds
from epp.app.options import ServeOptions
from epp.app.picking import Picking
from epp.app.pool_events import PoolEvents
from epp.app.request_path_settings import request_path_settings
from epp.app.source import Source
from epp.datastore.datastore import Datastore, Snapshot
from epp.datastore.inference_pool import failure_mode_in_force
from epp.discovery.pool_file_source import PoolFileSource
from epp.framework.data_layer import EndpointDiscovery
from epp.framework.errors import ConfigError
from epp.gateway.health import HealthState
from epp.kubernetes.leader_election import ElectionTiming, LeaderElector
from epp.observability.background_stream import BackgroundStream
from epp.observability.metrics import Metrics
from epp.observability.request_log import RequestLog
from epp.request_control.plan import RequestPlan
from epp.support.tasks import TaskOwner, keep_running

log = structlog.get_logger(__name__)


class Application:
    """The process behind `epp serve`, also run in-process by `epp standalone` and tests."""

    def __init__(
        self,
        options: ServeOptions,
        *,
        request_log_stream: TextIO | None = None,
        on_lost_lease: Callable[[], None] = lambda: None,
        election_timing: ElectionTiming | None = None,
    ) -> None:
        self._options = options
        self._election_timing = election_timing or ElectionTiming()
        self._on_lost_lease = on_lost_lease
        self.has_lost_lease = False
        """Whether another replica leads, or may lead, in place of this one, which should end."""
        self._datastore = Datastore()
        self._metrics = Metrics(
            build_ref=__version__,
            deprecated_twins=options.deprecated_metrics,
            stream_metrics=options.enable_grpc_stream_metrics,
            unmatched_pods=lambda: len(self._datastore.explanations()),
            tasks=lambda: len(asyncio.all_tasks()),
        )
        self._health = HealthState(has_election=options.elects_leader)
        rng = random.Random(options.seed)
        self._picking = Picking(options, self._datastore, self._metrics, rng=rng)
        self._events = PoolEvents(
            options, lambda: self._picking.parsers, self._metrics, self._health
        )
        self._datastore.subscribe(self._events.changed)
        self._requests: BackgroundStream | None = None
        request_log = None
        if options.request_log:
            if request_log_stream is None:
                self._requests = BackgroundStream(sys.stdout)
                # A text stream in everything but its static type.
                request_log_stream = cast("TextIO", self._requests)
            request_log = RequestLog(request_log_stream, options.log_format)
        self._path = build_request_path(
            self._datastore,
            self._metrics,
            request_path_settings(options),
            rng=rng,
            request_log=request_log,
            plan=self._picking.plan,
            note_request=self._picking.data_layer.note_request,
        )
        self._background = TaskOwner()
        self._listeners = Listeners(
            options,
            health=self._health,
            metrics=self._metrics,
            processor=self._path.processor,
            read_pool=self.pool_view,
            admin_groups=(
                DecisionPages(self._path.decisions, self._path.rehearsal.run),
                ConsolePages(self.configuration_view),
            ),
            plugin_state=self._picking.plugin_state,
            tasks=self._background,
        )
        self._stop_at_once = asyncio.Event()
        self._source: Source | None = None
        self._cluster: Cluster | None = None
        self._feeds: ObjectFeeds | None = None
        self._elector: LeaderElector | None = None
        self._election: asyncio.Task[None] | None = None
        self._stopping = False

    def snapshot(self) -> Snapshot:
        """The pool as requests see it."""
        return self._datastore.snapshot()

    def profiles(self) -> Sequence[str]:
        """What is picked by, in a line for each scheduling profile."""
        return self._picking.profiles

    async def wait_synced(self) -> None:
        """Return once pool and pods have been read."""
        await self._datastore.wait_synced()

    def pool_view(self) -> PoolView:
        """The pool as operators see it."""
        snapshot = self._datastore.snapshot()
        outliers, scraping = self._path.outliers, self._picking.data_layer
        followed = (self._source, self._elector, self._picking, scraping, outliers)
        problems = [each.problem for each in followed if each is not None]
        return view_pool(
            snapshot,
            failure_mode=failure_mode_in_force(self._options.forced_failure_mode, snapshot.pool),
            not_ready_reasons=self._health.not_ready_reasons(),
            problems=[problem for problem in problems if problem],
            unmatched=self._datastore.explanations(),
            is_ejected=outliers.is_ejected,
            prefix_shares=self._picking.prefix_shares(),
        )

    def configuration_view(self) -> ConfigurationView:
        """The configuration in force as operators see it."""
        return ConfigurationView(
            version=__version__,
            source=self._picking.source,
            profiles=self._picking.profiles,
            document=self._picking.document(),
            problem=self._picking.problem,
        )

    async def start(self) -> BoundPorts:
        """Read the pool, then serve. Raises `ConfigError` for what can't work."""
        options = self._options
        try:
            await self._follow_pool()
            self._picking.data_layer.start()
            self._keep_running("data layer", self._picking.data_layer.run)
            if options.config_file is not None:
                self._keep_running("configuration", self._follow_configuration)
            self._keep_running("load guard", self._path.guard.run)
            self._keep_running("idle bodies", self._path.processor.run)
            guard = metrics_guard(options, self._cluster, self._metrics)
            ports = await self._listeners.start(guard)
        except BaseException:
            await self._close(grace=0.0)
            raise
        log.info(
            "serving",
            ext_proc_port=ports.grpc,
            health_port=ports.health,
            metrics_port=ports.metrics,
            admin_port=ports.admin,
            transport=options.transport,
            tls=options.secure_serving,
        )
        return ports

    async def _follow_configuration(self) -> None:
        def use(plan: RequestPlan) -> None:
            self._path.director.use(plan)
            self._events.parsers_changed(self._datastore.snapshot().pool)
            if self._feeds is not None:
                self._feeds.follow(self._picking.data_layer.kubernetes_sources)

        await self._picking.run(use)

    async def _follow_pool(self) -> None:
        options = self._options
        if self._picking.discovery is not None:
            self._follow_listed_endpoints(self._picking.discovery)
            return
        if options.pool_file is not None:
            file = PoolFileSource(options.pool_file, self._datastore, self._events)
            file.load()
            self._follow(file, "pool file")
            return
        if not options.pool.is_in_cluster:
            raise ConfigError(
                "no pool is given; use one of --pool-name, --endpoint-selector, --pool-file,"
                " or dataLayer.discovery in the configuration"
            )
        self._cluster = cluster = await Cluster.connect(options)
        self._follow(cluster.source(self._datastore, self._metrics.cluster), "pool in the cluster")
        objectives = cluster.objectives(self._datastore, self._metrics.cluster)
        if objectives is not None:
            self._keep_running("objectives", objectives.run)
        feed_of = partial(cluster.object_feed, observer=self._metrics.cluster)
        self._feeds = ObjectFeeds(feed_of, self._background)
        self._feeds.follow(self._picking.data_layer.kubernetes_sources)
        if options.elects_leader:
            self._events.leadership_changed(False)
            elector = cluster.elector(self._events.leadership_changed, self._election_timing)
            self._elector = elector
            self._health.doubt_leader(lambda: elector.is_leader)
            self._election = self._background.spawn(self._elect(elector), "leader election")
        if options.emit_events:
            writer = cluster.event_writer(self._metrics.cluster.event_told)
            self._keep_running("events", writer.run)
            self._keep_running("happenings", Watchman(self._standing, writer.tell).run)

    def _standing(self) -> Standing:
        snapshot, outliers = self._datastore.snapshot(), self._path.outliers
        knows_pool = snapshot.synced and snapshot.pool is not None
        return Standing(
            plan=self._picking.plan,
            config_problem=self._picking.problem,
            pool_problem=None if self._cluster is None else self._cluster.pool_rejection,
            endpoints=len(snapshot.endpoints) if knows_pool else None,
            ejected=frozenset(
                endpoint.address for endpoint in snapshot.endpoints if outliers.is_ejected(endpoint)
            ),
            leads=None if self._elector is None else self._elector.is_leader,
        )

    def _follow_listed_endpoints(self, discovery: EndpointDiscovery) -> None:
        file = PoolFileSource(
            discovery.path,
            self._datastore,
            self._events,
            default_namespace=self._options.pool.namespace,
            default_pool_name=self._options.pool.name_in_cluster,
        )
        file.load()
        self._source = file
        if discovery.watch_file:
            self._keep_running("endpoint file", file.run)

    def _follow(self, source: Source, name: str) -> None:
        self._source = source
        self._keep_running(name, source.run)

    async def _elect(self, elector: LeaderElector) -> None:
        # One that could not serve yet would keep the lease from those that can.
        await self._datastore.wait_synced()
        try:
            await elector.run()
        finally:
            if not self._stopping:
                self.has_lost_lease = True
                self._on_lost_lease()

    async def stop(self) -> None:
        """Not ready first, then serve on for the drain time, then end within the grace."""
        if not self._stopping:
            self._stopping = True
            self._health.set_draining()
            self._events.publish_readiness()
            # The lease goes first, so that another replica is ready while this one drains.
            await asyncio.gather(self._end_election(), self._drain())
            await self._close(grace=self._options.shutdown_grace)
            log.info("stopped")

    def stop_at_once(self) -> None:
        """End a `stop` that is waiting."""
        self._stop_at_once.set()

    async def _end_election(self) -> None:
        if self._election is not None:
            self._election.cancel()
            await asyncio.wait({self._election})

    async def _drain(self) -> None:
        drain = self._options.drain_timeout
        if drain:
            log.info("draining", seconds=drain)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(drain):
                    await self._stop_at_once.wait()

    async def _close(self, grace: float) -> None:
        self._health.close()
        # The last second is for streams that are given up to say so.
        stopping = asyncio.ensure_future(self._listeners.stop_streams(grace + 1))
        at_once = asyncio.ensure_future(self._stop_at_once.wait())
        await asyncio.wait((stopping, at_once), timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()
        self._path.processor.abort_all("the endpoint picker is shutting down")
        await stopping
        await self._path.tasks.aclose()
        await self._picking.data_layer.aclose()
        await self._background.aclose()
        # Whoever reads a page may have to be asked about.
        await self._listeners.stop_pages()
        if self._cluster is not None:
            await self._cluster.close()
        if self._requests is not None:
            self._requests.close()

    def _keep_running(self, name: str, serve: Callable[[], Awaitable[None]]) -> None:
        self._background.spawn(keep_running(name, serve), name=name)
