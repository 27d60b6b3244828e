"""A decision without its consequences: the same steps with the same plugins, written down.

No endpoint is reserved, hooks that act on decisions or follow responses are not called, plugins
are told (`InferenceRequest.is_dry_run`) to remember nothing, and no metric and no log of decisions
hears of it. Random numbers are drawn.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from epp.framework.errors import Rejection
from epp.request_control.candidates import Candidates, locate_candidates
from epp.request_control.decision_log import (
    Decision,
    DecisionLog,
    Refusal,
    bare_decision,
    refusal_of,
)
from epp.request_control.failure_answers import DeadlinePassed
from epp.request_control.hooks import HookRunner, Hooks
from epp.request_control.incoming import new_request
from epp.request_control.pipeline import Pipeline
from epp.request_control.recording import Recording, Watch, WatchedFilter, WatchedScreener
from epp.scheduling.freshness import fresh_among
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.scheduler import ProfileScheduler
from epp.support.plugin_faults import PLUGIN_FAULTS, is_cancellation

if TYPE_CHECKING:
    from epp.datastore.datastore import Snapshot
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest
    from epp.framework.scheduling import Scheduler, SchedulingResult
    from epp.request_control.director_settings import DirectorSettings
    from epp.request_control.incoming import IncomingRequest
    from epp.request_control.outliers import OutlierMemory
    from epp.request_control.plan import RequestPlan
    from epp.request_control.pool_access import PoolAccess


class Rehearsal:
    """Decides requests that are not there, by the plan in force."""

    def __init__(
        self,
        *,
        datastore: PoolAccess,
        plan: Callable[[], RequestPlan],
        outliers: OutlierMemory,
        settings: DirectorSettings,
        rng: random.Random,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._datastore = datastore
        self._plan = plan
        self._outliers = outliers
        self._settings = replace(settings, emit_endpoint_scores=False, log_level=None)
        self._rng = rng
        self._now = now

    async def run(self, incoming: IncomingRequest) -> Decision:
        """Where `incoming` would go as of now, and why; never raises for what becomes of it."""
        incoming.reserve = False
        request = new_request(incoming, self._rng)
        request.is_dry_run = True
        recording, outcome = Recording(), DecisionLog(1, self._now)
        try:
            async with asyncio.timeout(self._settings.decision_timeout):
                await self._pipeline(recording, outcome).run(
                    _watched(self._plan(), recording, self._now),
                    incoming,
                    request,
                    in_turns=incoming.is_long,
                )
        except Rejection as rejection:
            decision = self._refused(incoming, request, refusal_of(rejection, rejection.message))
        except PLUGIN_FAULTS as error:  # told, whatever it is
            if is_cancellation(error):
                raise
            decision = self._refused(incoming, request, _fault(error))
        else:
            [decision] = outcome.last(1)
        return msgspec.structs.replace(decision, pool_size=recording.pool_size, recording=recording)

    def _pipeline(self, recording: Recording, outcome: DecisionLog) -> Pipeline:
        return Pipeline(
            datastore=self._datastore,
            candidates=_WatchedCandidates(
                recording, self._outliers, use_subset=self._settings.use_subset
            ),
            metrics=Watch(recording),
            on_picked=lambda _: None,
            on_end=lambda _, __: None,
            settings=self._settings,
            now=self._now,
            note_request=lambda: None,
            decisions=outcome,
        )

    def _refused(
        self, incoming: IncomingRequest, request: InferenceRequest, refusal: Refusal
    ) -> Decision:
        return bare_decision(request, incoming.received_at, self._now(), refusal=refusal)


class _WatchedCandidates(Candidates):
    def __init__(self, recording: Recording, outliers: OutlierMemory, *, use_subset: bool) -> None:
        super().__init__(outliers, use_subset=use_subset)
        self._recording = recording

    def of(self, incoming: IncomingRequest, snapshot: Snapshot) -> Sequence[Endpoint]:
        recording, hint = self._recording, incoming.subset if self._use_subset else None
        located = locate_candidates(snapshot, hint)
        recording.pool_size = len(snapshot.endpoints)
        recording.leave_out("subset", snapshot.endpoints, located)
        found = super().of(incoming, snapshot)
        recording.leave_out("ejection", located, found)
        return found


class _WatchedScheduler:
    """A scheduler that is given the same, and notes who is stale."""

    def __init__(self, scheduler: Scheduler, recording: Recording) -> None:
        self._scheduler = scheduler
        self._recording = recording

    def schedule(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> SchedulingResult:
        self._recording.leave_out("staleness", candidates, fresh_among(candidates))
        return self._scheduler.schedule(request, candidates)


def _watched(plan: RequestPlan, recording: Recording, now: Callable[[], float]) -> RequestPlan:
    """The plan without what acts on a decision, told of in `recording`."""
    hooks = plan.hooks.hooks
    rehearsed = Hooks(
        request_header=hooks.request_header,
        screener=tuple(WatchedScreener(each, recording) for each in hooks.screener),
        data_producer=tuple(each for each in hooks.data_producer if not plan.hooks.is_off(each)),
        admitter=hooks.admitter,
    )
    return replace(
        plan,
        hooks=HookRunner(rehearsed, Watch(recording), now),
        scheduler=_WatchedScheduler(_profiles(plan.scheduler, recording, now), recording),
    )


def _profiles(scheduler: Scheduler, recording: Recording, now: Callable[[], float]) -> Scheduler:
    if not isinstance(scheduler, ProfileScheduler):
        return scheduler
    profiles = [
        SchedulerProfile(
            profile.name,
            filters=[WatchedFilter(each, profile.name, recording) for each in profile.filters],
            scorers=profile.scorers,
            picker=profile.picker,
            observer=Watch(recording, profile.name),
            now=now,
        )
        for profile in scheduler.profiles
    ]
    return ProfileScheduler(profiles, scheduler.handler, observer=Watch(recording), now=now)


def _fault(error: BaseException) -> Refusal:
    # Of what a plugin says nothing: it may be of the prompt. The log has it.
    status = HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, TimeoutError | DeadlinePassed):
        return Refusal(status, "Fault", "epp_deadline", "no endpoint was picked in time")
    message = f"{type(error).__name__} while picking an endpoint; the log tells more"
    return Refusal(status, "Fault", "epp_internal", message)
