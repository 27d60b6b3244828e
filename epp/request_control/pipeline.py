"""The order of steps that turns a request into a decision (protocol §8), and nothing else.

    parse → model, priority → request headers hooks → candidates → shedding → screeners
          → data producers → admitters → scheduler → pre-request hooks → body to forward

Nothing waits unless the plan has something to wait for (an asynchronous data producer) or the
body is read in turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import structlog

from epp.framework.errors import ErrorCode, PlainRejection
from epp.framework.request import TerminationCause
from epp.framework.trail import Trail
from epp.request_control.active_request import ActiveRequest
from epp.request_control.admission import require_available_cache, shed_at_saturation
from epp.request_control.explanation import decision_text, tell_scores
from epp.request_control.failure_answers import DeadlinePassed
from epp.request_control.fairness import fairness_id_of
from epp.request_control.model_rewrite import resolve_model, rewritten_body
from epp.request_control.objectives import priority_of
from epp.request_control.parser_steps import ParserSteps
from epp.request_control.parsing import read_body

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest
    from epp.framework.request_handling import Parser
    from epp.framework.scheduling import Scheduler
    from epp.framework.scheduling_results import SchedulingResult
    from epp.request_control.candidates import Candidates
    from epp.request_control.decision_log import DecisionLog
    from epp.request_control.director_settings import DirectorSettings
    from epp.request_control.incoming import IncomingRequest
    from epp.request_control.plan import RequestPlan
    from epp.request_control.pool_access import PoolAccess

log = structlog.get_logger(__name__)


class PipelineObserver(Protocol):
    """Is told how long the steps take; the process's metrics are one."""

    def scheduled(self, seconds: float, target_model: str, endpoint: Endpoint | None) -> None:
        """The scheduler took `seconds` and picked `endpoint`; None: it failed."""

    def plugin_timer(
        self, extension_point: str, plugin_type: str, plugin_name: str
    ) -> Callable[[float], None]:
        """What is told the seconds of each call of a plugin; asked for once."""


class Pipeline:
    """Takes requests through the steps. What it raises, a `Rejection` apart, is a fault."""

    def __init__(
        self,
        *,
        datastore: PoolAccess,
        candidates: Candidates,
        metrics: PipelineObserver,
        on_picked: Callable[[Endpoint], None],
        on_end: Callable[[ActiveRequest, TerminationCause], None],
        settings: DirectorSettings,
        now: Callable[[], float],
        note_request: Callable[[], None],
        decisions: DecisionLog | None,
    ) -> None:
        self._datastore = datastore
        self._candidates = candidates
        self._metrics = metrics
        self._on_picked = on_picked
        self._on_end = on_end
        self._settings = settings
        self._now = now
        self._note_request = note_request
        self._decisions = decisions
        self._parsing = ParserSteps("RequestParsing", metrics.plugin_timer)

    async def run(
        self,
        plan: RequestPlan,
        incoming: IncomingRequest,
        request: InferenceRequest,
        *,
        in_turns: bool,
    ) -> ActiveRequest:
        """Decide by `plan`; `in_turns`: let others have theirs while a long body is read."""
        self._note_request()
        started = self._now()
        trail = request.trail = Trail(started_at=started)
        deadline = started + self._settings.decision_timeout
        parser, body = await self._parse(plan, incoming, request, trail, in_turns=in_turns)
        if incoming.body is not None:
            resolve_model(request)
        if in_turns:
            await asyncio.sleep(0)
        request.priority = priority_of(request.headers, self._datastore.priorities)
        plan.hooks.request_header(request)
        request.fairness_id = fairness_id_of(request, plan)
        found = self._candidates.of(incoming, self._datastore.snapshot(), trail)
        shed_at_saturation(request, found, plan)
        candidates = trail.screened = tuple(plan.hooks.screen(request, found))
        await plan.hooks.produce(request, candidates)
        new_body = await _rewritten(request, body, in_turns=in_turns)
        plan.hooks.admit(request, candidates)
        scheduling_at = trail.scheduling_at = self._now()
        if scheduling_at > deadline:
            raise DeadlinePassed
        result = trail.result = self._schedule(plan.scheduler, request, candidates, scheduling_at)
        require_available_cache(request, result, plan)
        self._tell(request, result)
        active = ActiveRequest(
            incoming=incoming,
            request=request,
            endpoints=result.endpoints,
            hooks=plan.hooks.response,
            on_end=self._on_end,
            result=result,
            parser=parser,
            new_body=new_body,
            skip_response=request.parsed is not None and request.parsed.skip_response_processing,
        )
        decided_at = self._before_sending(plan, active, result, deadline)
        if self._decisions is not None:
            self._decisions.picked(active, decided_at)
        return active

    def _before_sending(
        self, plan: RequestPlan, active: ActiveRequest, result: SchedulingResult, deadline: float
    ) -> float:
        """Tell those who act on the decision; gives the time at which it was made."""
        try:
            plan.hooks.pre_request(active.request, result)
            decided_at = self._now()
            if decided_at > deadline:
                raise DeadlinePassed
        except BaseException:
            active.end(TerminationCause.ERROR)
            raise
        finally:
            active.request.let_go_of_body()
        if active.body_changed and "content-encoding" in active.request.headers:
            active.request.headers.remove("content-encoding")
        self._on_picked(active.endpoints[0])
        return decided_at

    async def _parse(
        self,
        plan: RequestPlan,
        incoming: IncomingRequest,
        request: InferenceRequest,
        trail: Trail,
        *,
        in_turns: bool,
    ) -> tuple[Parser | None, bytes | None]:
        """Parser of the path and the decoded body; sets `request.parsed`."""
        if incoming.body is None:
            return None, None
        parser = plan.parsers.select(request.path)
        try:
            body = await read_body(
                parser,
                incoming.body,
                request,
                limit=self._settings.max_request_body_bytes,
                may_be_cut=incoming.body_may_be_cut,
                has_fallback=plan.parsers.has_fallback,
                in_turns=in_turns,
            )
        finally:
            self._parsing_ended(parser, trail)
        return parser, body

    def _schedule(
        self,
        scheduler: Scheduler,
        request: InferenceRequest,
        candidates: Sequence[Endpoint],
        started: float,
    ) -> SchedulingResult:
        endpoints: Sequence[Endpoint] = ()
        try:
            result = scheduler.schedule(request, candidates)
            endpoints = result.endpoints
        finally:
            self._metrics.scheduled(
                self._now() - started, request.target_model, endpoints[0] if endpoints else None
            )
        if not endpoints:
            raise PlainRejection(ErrorCode.INTERNAL, "results must be greater than zero")
        return result

    def _parsing_ended(self, parser: Parser, trail: Trail) -> None:
        seconds = self._now() - trail.started_at
        label, took = self._parsing.of(parser)
        took(seconds)
        trail.calls.extend((label, trail.started_at, seconds))

    def _tell(self, request: InferenceRequest, result: SchedulingResult) -> None:
        if self._settings.emit_endpoint_scores:
            tell_scores(request, result)
        level = self._settings.log_level
        if level is not None and level.tells_debug:
            log.debug("decided", request_id=request.id, decision=decision_text(result))


async def _rewritten(
    request: InferenceRequest, body: bytes | None, *, in_turns: bool
) -> bytes | None:
    if in_turns:
        await asyncio.sleep(0)
    new_body = rewritten_body(request, body) if body is not None else None
    if in_turns and new_body is not None:
        await asyncio.sleep(0)
    return new_body
