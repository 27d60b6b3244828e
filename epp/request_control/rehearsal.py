"""A decision without its consequences: the same steps with the same plugins, written down.

No endpoint is reserved, hooks that act on decisions or follow responses are not called, plugins
are told (`InferenceRequest.is_dry_run`) to remember nothing, and no metric and no log of decisions
hears of it. Random numbers are drawn.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from epp.framework.data_types import PREFIX_MATCH, PrefixMatch
from epp.framework.errors import Rejection
from epp.request_control.candidates import Candidates
from epp.request_control.decision_log import (
    Decision,
    DecisionLog,
    Refusal,
    decision_of,
    refusal_of,
)
from epp.request_control.failure_answers import DeadlinePassed
from epp.request_control.hooks import Hooks
from epp.request_control.incoming import new_request
from epp.request_control.pipeline import Pipeline
from epp.request_control.request_hooks import HookRunner
from epp.scheduling.observer import Unobserved
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.scheduler import ProfileScheduler
from epp.support.plugin_faults import PLUGIN_FAULTS, is_cancellation

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest
    from epp.framework.scheduling import Scheduler
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
        outcome = DecisionLog(1, self._now)
        try:
            async with asyncio.timeout(self._settings.decision_timeout):
                await self._pipeline(outcome).run(
                    _unheard(self._plan(), self._now),
                    incoming,
                    request,
                    in_turns=incoming.is_long,
                )
        except Rejection as rejection:
            refusal = refusal_of(rejection, rejection.message)
        except PLUGIN_FAULTS as error:  # told, whatever it is
            if is_cancellation(error):
                raise
            refusal = _fault(error)
        else:
            [decision] = outcome.last(1)
            return msgspec.structs.replace(decision, matches=_matches_of(request))
        return decision_of(request, incoming.received_at, self._now(), refusal=refusal)

    def _pipeline(self, outcome: DecisionLog) -> Pipeline:
        return Pipeline(
            datastore=self._datastore,
            candidates=Candidates(self._outliers, use_subset=self._settings.use_subset),
            metrics=_Unheard(),
            on_picked=lambda _: None,
            on_end=lambda _, __: None,
            settings=self._settings,
            now=self._now,
            note_request=lambda: None,
            decisions=outcome,
        )


class _Unheard(Unobserved):
    """No metric hears of it."""

    def scheduled(self, seconds: float, target_model: str, endpoint: Endpoint | None) -> None:
        """Nobody asks."""

    def response_phase_error(self) -> None:
        """There is no response."""


def _unheard(plan: RequestPlan, now: Callable[[], float]) -> RequestPlan:
    """The plan without what acts on a decision, and without the process's metrics."""
    hooks = plan.hooks.hooks
    rehearsed = Hooks(
        request_header=hooks.request_header,
        screener=hooks.screener,
        data_producer=tuple(each for each in hooks.data_producer if not plan.hooks.is_off(each)),
        admitter=hooks.admitter,
    )
    return replace(
        plan,
        hooks=HookRunner(rehearsed, _Unheard(), now),
        scheduler=_scheduler(plan.scheduler, now),
    )


def _scheduler(scheduler: Scheduler, now: Callable[[], float]) -> Scheduler:
    if not isinstance(scheduler, ProfileScheduler):
        return scheduler
    profiles = [
        SchedulerProfile(
            profile.name,
            filters=profile.filters,
            scorers=profile.scorers,
            picker=profile.picker,
            now=now,
        )
        for profile in scheduler.profiles
    ]
    return ProfileScheduler(profiles, scheduler.handler, now=now)


def _matches_of(request: InferenceRequest) -> Mapping[Endpoint, PrefixMatch] | None:
    """The first producer's; a mapping of a stranger's may compute them, and raise."""
    for key, values in request.candidate_attributes.items():
        if key.startswith(PREFIX_MATCH.key("")) and type(values) is dict:
            return values
    return None


def _fault(error: BaseException) -> Refusal:
    # Of what a plugin says nothing: it may be of the prompt. The log has it.
    status = HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, TimeoutError | DeadlinePassed):
        return Refusal(status, "Fault", "epp_deadline", "no endpoint was picked in time")
    message = f"{type(error).__name__} while picking an endpoint; the log tells more"
    return Refusal(status, "Fault", "epp_internal", message)
