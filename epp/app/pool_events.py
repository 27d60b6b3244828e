"""What the process makes of changes in the pool and of who leads: readiness, gauges, log lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from epp.datastore.inference_pool import FailureMode, failure_mode_in_force

if TYPE_CHECKING:
    from epp.app.options import ServeOptions
    from epp.datastore.inference_pool import InferencePool
    from epp.datastore.snapshot import Change
    from epp.framework.request_handling import Parser
    from epp.gateway.health import HealthState
    from epp.observability.metrics import Metrics

log = structlog.get_logger(__name__)

MOST_NAMED = 20


class PoolEvents:
    """Listener of the datastore and of the election, and observer of the pool file."""

    def __init__(
        self,
        options: ServeOptions,
        parsers: Callable[[], Sequence[Parser]],
        metrics: Metrics,
        health: HealthState,
    ) -> None:
        self._flag = options.forced_failure_mode
        self._parsers = parsers
        self._metrics = metrics
        self._health = health
        self._told_mode: FailureMode | None = None
        if options.pool.is_in_cluster:
            # Dashboards choose by pool, above all while it can't be read.
            metrics.pool.changed(options.pool.name_in_cluster, 0)

    def changed(self, change: Change) -> None:
        """The datastore published a new snapshot."""
        snapshot = change.new
        self._health.set_synced(snapshot.synced, is_pool_gone=snapshot.is_pool_gone)
        if snapshot.pool is not None:
            self._health.set_protocol_supported(speaks(snapshot.pool, self._parsers()))
            self._metrics.pool.changed(snapshot.pool.name, len(snapshot.endpoints))
            self._tell_failure_mode(snapshot.pool)
        elif change.old.pool is not None:
            self._metrics.pool.changed(change.old.pool.name, 0)
            self._metrics.cluster.pool_gone()
        self._metrics.endpoints_left(change.removed)
        self.publish_readiness()
        if snapshot.synced and not snapshot.endpoints and (change.removed or not change.old.synced):
            log.warning("the pool has no endpoint: every request is answered with 503")
        if change.added or change.removed:
            log.info(
                "endpoints changed",
                endpoints=len(snapshot.endpoints),
                added=[str(endpoint) for endpoint in change.added[:MOST_NAMED]],
                removed=[str(endpoint) for endpoint in change.removed[:MOST_NAMED]],
            )

    def parsers_changed(self, pool: InferencePool | None) -> None:
        """Other parsers are in force."""
        if pool is not None:
            self._health.set_protocol_supported(speaks(pool, self._parsers()))
            self.publish_readiness()

    def publish_readiness(self) -> None:
        """Show on the metrics page what health says."""
        self._metrics.ready.set(0 if self._health.not_ready_reasons() else 1)

    def leadership_changed(self, leads: bool) -> None:
        """This replica became the leader, or is no longer."""
        self._health.set_leader(leads)
        self._metrics.cluster.leads(leads)
        self.publish_readiness()

    def pool_file_loaded(self, *, skipped_entries: int) -> None:
        """A version of the pool file is in force."""
        self._metrics.files.pool_reloaded("success")
        for _ in range(skipped_entries):
            self._metrics.files.pool_file_error("entry")

    def pool_file_failed(self) -> None:
        """A version of the pool file is broken as a whole."""
        self._metrics.files.pool_reloaded("failure")
        self._metrics.files.pool_file_error("document")

    def _tell_failure_mode(self, pool: InferencePool) -> None:
        mode = failure_mode_in_force(self._flag, pool)
        if mode is self._told_mode:
            return
        self._told_mode = mode
        if self._flag is not None and pool.failure_mode not in (None, self._flag):
            log.warning(
                "--failure-mode wins over the pool", flag=self._flag, pool=pool.failure_mode
            )
        log.info("failure mode", mode=mode)


def speaks(pool: InferencePool, parsers: Sequence[Parser]) -> bool:
    """Whether every parser that minds understands how the pool's model servers are talked to."""
    return all(not parser.protocols or pool.app_protocol in parser.protocols for parser in parsers)
