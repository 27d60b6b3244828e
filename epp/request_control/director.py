"""How a request is decided: at once or waiting, within the deadline, and what a fault comes to.

Nothing waits unless the configuration has something to wait for (an asynchronous data
producer), a body is long or the pool has not been seen yet: then `decide_waiting` is called from a
task, else `decide`, which returns in the same turn of the event loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from epp.framework.errors import Rejection
from epp.request_control.candidates import Candidates
from epp.request_control.failure_answers import DeadlinePassed, FailureAnswers
from epp.request_control.incoming import new_request
from epp.request_control.pipeline import Pipeline
from epp.support.plugin_faults import PLUGIN_FAULTS, is_cancellation
from epp.support.tasks import completed

if TYPE_CHECKING:
    from epp.datastore.inference_pool import FailureMode
    from epp.framework.request import TerminationCause
    from epp.observability.metrics import Metrics
    from epp.request_control.active_request import ActiveRequest
    from epp.request_control.decision_log import DecisionLog
    from epp.request_control.director_settings import DirectorSettings
    from epp.request_control.incoming import IncomingRequest
    from epp.request_control.outliers import OutlierMemory
    from epp.request_control.plan import RequestPlan
    from epp.request_control.pool_access import PoolAccess


class Director:
    """Decides requests by the plan in force."""

    def __init__(
        self,
        *,
        datastore: PoolAccess,
        plan: RequestPlan,
        outliers: OutlierMemory,
        metrics: Metrics,
        on_end: Callable[[ActiveRequest, TerminationCause], None],
        settings: DirectorSettings,
        rng: random.Random,
        now: Callable[[], float] = time.monotonic,
        note_request: Callable[[], None] = lambda: None,
        decisions: DecisionLog | None = None,
    ) -> None:
        self._datastore = datastore
        self._plan = plan
        self._settings = settings
        self._rng = rng
        candidates = Candidates(outliers, use_subset=settings.use_subset)
        self._pipeline = Pipeline(
            datastore=datastore,
            candidates=candidates,
            metrics=metrics,
            on_picked=outliers.picked,
            on_end=on_end,
            settings=settings,
            now=now,
            note_request=note_request,
            decisions=decisions,
        )
        self._failures = FailureAnswers(
            candidates,
            outliers,
            datastore.snapshot,
            forced_mode=settings.failure_mode,
            metrics=metrics,
            on_end=on_end,
            rng=rng,
            decisions=decisions,
        )

    @property
    def plan(self) -> RequestPlan:
        """What requests meet, as of now."""
        return self._plan

    def use(self, plan: RequestPlan) -> None:
        """Decide by another plan from now on; requests that are under way keep theirs."""
        self._plan = plan

    @property
    def failure_mode(self) -> FailureMode:
        """What a fault of ours means for the request, as of now."""
        return self._failures.mode

    def may_wait(self, incoming: IncomingRequest) -> bool:
        """Whether a decision taken now should take, or needs, `decide_waiting`."""
        return self._plan.hooks.may_wait or self._must_sync or incoming.is_long

    @property
    def _must_sync(self) -> bool:
        """A pool that is gone has no endpoints, which is an answer (decision 1)."""
        snapshot = self._datastore.snapshot()
        return not snapshot.synced and not snapshot.is_pool_gone

    def decide(self, incoming: IncomingRequest) -> ActiveRequest:
        """Decide at once. Raises `Rejection`; only where nothing has to be waited for."""
        request = new_request(incoming, self._rng)
        try:
            return completed(self._pipeline.run(self._plan, incoming, request, in_turns=False))
        except Rejection:
            raise
        except PLUGIN_FAULTS as error:  # the failure mode answers it
            return self._failures.fault(error, incoming, request, self._plan.hooks.response)

    async def decide_waiting(self, incoming: IncomingRequest) -> ActiveRequest:
        """Decide, waiting where the configuration says so, and letting others have their turn
        while a long body is read. Raises `Rejection`."""
        request = new_request(incoming, self._rng)
        try:
            async with asyncio.timeout(self._settings.decision_timeout):
                if self._must_sync:
                    await self._datastore.wait_synced()
                return await self._pipeline.run(
                    self._plan, incoming, request, in_turns=incoming.is_long
                )
        except Rejection:
            raise
        except PLUGIN_FAULTS as error:  # the failure mode answers it
            if is_cancellation(error):
                raise
            if self._must_sync:
                return self._failures.never_synced(incoming, request, self._plan.hooks.response)
            if isinstance(error, TimeoutError):
                passed = DeadlinePassed()
                passed.__cause__ = error  # tells what was waited for
                error = passed
            return self._failures.fault(error, incoming, request, self._plan.hooks.response)

    def best_effort(self, incoming: IncomingRequest, reason: str) -> ActiveRequest:
        """Pick without looking at the body: what FailOpen does instead of giving up.

        Raises `Rejection` when there is no endpoint to pick.
        """
        request = new_request(incoming, self._rng)
        return self._failures.best_effort(incoming, request, self._plan.hooks.response, reason)
