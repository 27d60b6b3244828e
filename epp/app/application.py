"""One Endpoint Picker process: builds every object, owns every task, starts and ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TextIO

import structlog

from epp import __version__
from epp.admin.console_pages import ConsolePages
from epp.admin.decision_pages import DecisionPages
from epp.admin.log_level_pages import LogLevelPages
from epp.app.happenings import Watchman
from epp.app.listeners import BoundPorts, Listeners
from epp.app.metrics_access import metrics_guard
from epp.app.options import ServeOptions
from epp.app.picking import Picking
from epp.app.pool_events import PoolEvents
from epp.app.pool_follower import PoolFollower
from epp.app.request_lines import RequestLines
from epp.app.request_path import build_request_path
from epp.app.request_path_settings import request_path_settings
from epp.app.tracing import open_tracing
from epp.app.views import Views
from epp.datastore.datastore import Datastore
from epp.datastore.snapshot import Snapshot
from epp.gateway.health import HealthState
from epp.kubernetes.leader_election import ElectionTiming
from epp.observability.log_level import LogLevelSwitch
from epp.observability.metrics import Metrics
from epp.request_control.plan import RequestPlan
from epp.support.revision import revision_in
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
        log_level: LogLevelSwitch | None = None,
    ) -> None:
        self._options = options
        level = log_level or LogLevelSwitch(options.log_level)
        self._on_lost_lease = on_lost_lease
        self.has_lost_lease = False
        """Whether another replica leads, or may lead, in place of this one, which should end."""
        self._datastore = Datastore()
        self._metrics = Metrics(
            commit=revision_in(os.environ),
            build_ref=__version__,
            deprecated_twins=options.deprecated_metrics,
            stream_metrics=options.enable_grpc_stream_metrics,
            unmatched_pods=lambda: len(self._datastore.explanations()),
            tasks=lambda: len(asyncio.all_tasks()),
            lost_spans=lambda: {} if self._tracing is None else self._tracing.lost(),
        )
        rng = random.Random(options.seed)
        self._picking = Picking(options, self._datastore, self._metrics, rng=rng)
        lists_endpoints = self._picking.discovery is not None
        self._health = HealthState(has_election=options.elects_leader and not lists_endpoints)
        self._events = PoolEvents(
            options, lambda: self._picking.parsers, self._metrics, self._health
        )
        self._datastore.subscribe(self._events.changed)
        self._requests = RequestLines(options, request_log_stream)
        self._tracing = open_tracing(os.environ) if options.tracing else None
        self._path = build_request_path(
            self._datastore,
            self._metrics,
            request_path_settings(options, level),
            rng=rng,
            request_log=self._requests.log,
            plan=self._picking.plan,
            note_request=self._picking.data_layer.note_request,
            tracer=None if self._tracing is None else self._tracing.tracer,
        )
        self._background = TaskOwner()
        self._follower = PoolFollower(
            options,
            self._datastore,
            self._picking,
            events=self._events,
            health=self._health,
            metrics=self._metrics,
            tasks=self._background,
            election_timing=election_timing or ElectionTiming(),
            on_lost_lease=self._lose_lease,
        )
        self.views = Views(
            options,
            self._datastore,
            picking=self._picking,
            outliers=self._path.outliers,
            follower=self._follower,
            health=self._health,
        )
        self._listeners = Listeners(
            options,
            health=self._health,
            metrics=self._metrics,
            processor=self._path.processor,
            read_pool=self.views.pool,
            admin_groups=(
                DecisionPages(self._path.decisions, self._path.rehearsal.run),
                ConsolePages(self.views.configuration),
                LogLevelPages(level),
            ),
            plugin_state=self._picking.plugin_state,
            tasks=self._background,
        )
        self._stop_at_once = asyncio.Event()
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

    async def start(self) -> BoundPorts:
        """Read the pool, then serve. Raises `ConfigError` for what can't work."""
        options = self._options
        try:
            await self._follower.start()
            self._tell_happenings()
            self._picking.data_layer.start()
            self._keep_running("data layer", self._picking.data_layer.run)
            if options.config_file is not None:
                self._keep_running("configuration", self._follow_configuration)
            self._keep_running("load guard", self._path.guard.run)
            self._keep_running("idle bodies", self._path.processor.upkeep.run)
            guard = metrics_guard(options, self._follower.cluster, self._metrics)
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
            self._follower.follow_plugin_sources()

        await self._picking.run(use)

    def _tell_happenings(self) -> None:
        cluster = self._follower.cluster
        if cluster is not None and self._options.emit_events:
            writer = cluster.event_writer(self._metrics.cluster.event_told)
            self._keep_running("events", writer.run)
            self._keep_running("happenings", Watchman(self.views.standing, writer.tell).run)

    def _lose_lease(self) -> None:
        self.has_lost_lease = True
        self._on_lost_lease()

    async def stop(self) -> None:
        """Not ready first, then serve on for the drain time, then end within the grace."""
        if not self._stopping:
            self._stopping = True
            self._health.set_draining()
            self._events.publish_readiness()
            # The lease goes first, so that another replica is ready while this one drains.
            await asyncio.gather(self._follower.hand_over(), self._drain())
            await self._close(grace=self._options.shutdown_grace)
            log.info("stopped")

    def stop_at_once(self) -> None:
        """End a `stop` that is waiting."""
        self._stop_at_once.set()

    async def _drain(self) -> None:
        drain = self._options.drain_timeout
        if drain:
            log.info("draining", seconds=drain, ended_by="a second signal")
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
        self._path.processor.abort_all()
        await stopping
        await self._path.tasks.aclose()
        await self._picking.data_layer.aclose()
        await self._background.aclose()
        # Whoever reads a page may have to be asked about.
        await self._listeners.stop_pages()
        await self._follower.close()
        self._requests.close()
        if self._tracing is not None:
            await self._tracing.close()

    def _keep_running(self, name: str, serve: Callable[[], Awaitable[None]]) -> None:
        self._background.spawn(keep_running(name, serve), name=name)
