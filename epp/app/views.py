"""What this process shows of itself: the pool, the configuration, and how things stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp import __version__
from epp.admin.console_pages import ConfigurationView
from epp.admin.pool_view import PoolView, view_pool
from epp.app.happenings import Standing
from epp.datastore.inference_pool import failure_mode_in_force

if TYPE_CHECKING:
    from epp.app.options import ServeOptions
    from epp.app.picking import Picking
    from epp.app.pool_follower import PoolFollower
    from epp.datastore.datastore import Datastore
    from epp.gateway.health import HealthState
    from epp.request_control.outliers import OutlierMemory


class Views:
    """Reads what the rooms know; changes nothing."""

    def __init__(
        self,
        options: ServeOptions,
        datastore: Datastore,
        *,
        picking: Picking,
        outliers: OutlierMemory,
        follower: PoolFollower,
        health: HealthState,
    ) -> None:
        self._options = options
        self._datastore = datastore
        self._picking = picking
        self._outliers = outliers
        self._follower = follower
        self._health = health

    def pool(self) -> PoolView:
        """The pool as operators see it."""
        snapshot = self._datastore.snapshot()
        own = (self._picking, self._picking.data_layer, self._outliers)
        problems = [*self._follower.problems(), *(each.problem for each in own)]
        return view_pool(
            snapshot,
            failure_mode=failure_mode_in_force(self._options.forced_failure_mode, snapshot.pool),
            not_ready_reasons=self._health.not_ready_reasons(),
            problems=[problem for problem in problems if problem],
            unmatched=self._datastore.explanations(),
            is_ejected=self._outliers.is_ejected,
            prefix_shares=self._picking.prefix_shares(),
        )

    def configuration(self) -> ConfigurationView:
        """The configuration in force as operators see it."""
        return ConfigurationView(
            version=__version__,
            source=self._picking.source,
            profiles=self._picking.profiles,
            document=self._picking.document(),
            problem=self._picking.problem,
        )

    def standing(self) -> Standing:
        """What may be told beside the pool when it changes."""
        snapshot, cluster = self._datastore.snapshot(), self._follower.cluster
        # A probe that fails ejects once more, which is no other happening.
        is_distrusted = self._outliers.is_distrusted
        knows_pool = snapshot.synced and snapshot.pool is not None
        return Standing(
            plan=self._picking.plan,
            config_problem=self._picking.problem,
            pool_problem=None if cluster is None else cluster.pool_rejection,
            endpoints=len(snapshot.endpoints) if knows_pool else None,
            ejected=frozenset(
                endpoint.address for endpoint in snapshot.endpoints if is_distrusted(endpoint)
            ),
            leads=self._follower.leads,
        )
