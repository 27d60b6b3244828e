"""The order of steps that turns a request into a decision (protocol §8), and nothing else.

    parse → model, priority → request headers hooks → candidates → shedding → screeners
          → data producers → admitters → scheduler → pre-request hooks → body to forward

Nothing waits unless the configuration has something to wait for (an asynchronous data
producer) or the pool has not been seen yet: then `decide_waiting` is called from a task, else
`decide`, which returns in the same turn of the event loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from epp.framework.errors import ErrorCode, Rejection
from epp.framework.request import TerminationCause
from epp.request_control.active_request import ActiveRequest
from epp.request_control.admission import require_available_cache, shed_at_saturation
from epp.request_control.candidates import Candidates
from epp.request_control.explanation import decision_text, tell_scores
from epp.request_control.failure_answers import DeadlinePassed, FailureAnswers
from epp.request_control.fairness import fairness_id_of
from epp.request_control.incoming import new_request, short_id
from epp.request_control.model_rewrite import resolve_model, rewritten_body
from epp.request_control.objectives import priority_of
from epp.request_control.parsing import read_body
from epp.support.plugin_faults import PLUGIN_FAULTS, is_cancellation
from epp.support.tasks import completed

if TYPE_CHECKING:
    from epp.datastore.datastore import Snapshot
    from epp.datastore.inference_pool import FailureMode
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest
    from epp.framework.request_handling import Parser
    from epp.framework.scheduling import Scheduler, SchedulingResult
    from epp.observability.metrics import Metrics
    from epp.request_control.incoming import IncomingRequest
    from epp.request_control.outliers import OutlierMemory
    from epp.request_control.plan import RequestPlan

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorSettings:
    """Limits of a decision. Times in seconds, sizes in bytes."""

    failure_mode: FailureMode | None = None
    """Wins over the pool's when given (decision 4)."""
    decision_timeout: float = 5.0
    max_request_body_bytes: int = 64 << 20
    use_subset: bool = True
    emit_endpoint_scores: bool = False
    """Whether the gateway is told the totals of all candidates."""
    log_decisions: bool = False
    """Whether every decision is a line in the debug log."""


class PoolAccess(Protocol):
    """What is read of the pool: all that a decision needs of a datastore."""

    @property
    def priorities(self) -> Mapping[str, int]:
        """Priorities by the name of the objective a request asks for."""

    def snapshot(self) -> Snapshot:
        """The pool as of now."""

    async def wait_synced(self) -> None:
        """Return once the pool has been seen."""


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
    ) -> None:
        self._datastore = datastore
        self._plan = plan
        self._outliers = outliers
        self._metrics = metrics
        self._on_end = on_end
        self._settings = settings
        self._rng = rng
        self._now = now
        self._note_request = note_request
        self._parsing_timers: dict[str, Callable[[float], None]] = {}
        """By type of the parser."""
        self._candidates = Candidates(datastore.snapshot, outliers, use_subset=settings.use_subset)
        self._failures = FailureAnswers(
            self._candidates,
            outliers,
            datastore.snapshot,
            forced_mode=settings.failure_mode,
            metrics=metrics,
            on_end=on_end,
            rng=rng,
        )

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
            return completed(self._pipeline(incoming, request, in_turns=False))
        except Rejection:
            raise
        except PLUGIN_FAULTS as error:  # the failure mode answers it
            return self._failures.fault(error, incoming, request, self._plan.hooks)

    async def decide_waiting(self, incoming: IncomingRequest) -> ActiveRequest:
        """Decide, waiting where the configuration says so, and letting others have their turn
        while a long body is read. Raises `Rejection`."""
        request = new_request(incoming, self._rng)
        try:
            async with asyncio.timeout(self._settings.decision_timeout):
                if self._must_sync:
                    await self._datastore.wait_synced()
                return await self._pipeline(incoming, request, in_turns=incoming.is_long)
        except Rejection:
            raise
        except PLUGIN_FAULTS as error:  # the failure mode answers it
            if is_cancellation(error):
                raise
            if self._must_sync:
                return self._failures.never_synced(incoming, request, self._plan.hooks)
            if isinstance(error, TimeoutError):
                error = DeadlinePassed()
            return self._failures.fault(error, incoming, request, self._plan.hooks)

    def best_effort(self, incoming: IncomingRequest, reason: str) -> ActiveRequest:
        """Pick without looking at the body: what FailOpen does instead of giving up.

        Raises `Rejection` when there is no endpoint to pick.
        """
        request = new_request(incoming, self._rng)
        return self._failures.best_effort(incoming, request, self._plan.hooks, reason)

    async def _pipeline(
        self, incoming: IncomingRequest, request: InferenceRequest, *, in_turns: bool
    ) -> ActiveRequest:
        plan = self._plan
        self._note_request()
        started = self._now()
        deadline = started + self._settings.decision_timeout
        parser, body = await self._parse(plan, incoming, request, started, in_turns=in_turns)
        if incoming.body is not None:
            resolve_model(request)
        if in_turns:
            await asyncio.sleep(0)
        request.priority = priority_of(request.headers, self._datastore.priorities)
        plan.hooks.request_header(request)
        request.fairness_id = fairness_id_of(request, plan)
        candidates = self._candidates.of(incoming)
        shed_at_saturation(request, candidates, plan)
        candidates = tuple(plan.hooks.screen(request, candidates))
        await plan.hooks.produce(request, candidates)
        new_body = await _rewritten(request, body, in_turns=in_turns)
        plan.hooks.admit(request, candidates)
        started = self._now()
        if started > deadline:
            raise DeadlinePassed
        result = self._schedule(plan.scheduler, request, candidates, started)
        require_available_cache(request, result, plan)
        self._tell(request, result)
        active = ActiveRequest(
            incoming=incoming,
            request=request,
            endpoints=result.endpoints,
            hooks=plan.hooks,
            on_end=self._on_end,
            result=result,
            parser=parser,
            new_body=new_body,
            skip_response=request.parsed is not None and request.parsed.skip_response_processing,
        )
        return self._before_sending(active, result, deadline)

    def _before_sending(
        self, active: ActiveRequest, result: SchedulingResult, deadline: float
    ) -> ActiveRequest:
        try:
            active.hooks.pre_request(active.request, result)
            if self._now() > deadline:
                raise DeadlinePassed
        except BaseException:
            active.end(TerminationCause.ERROR)
            raise
        finally:
            active.request.let_go_of_body()
        if active.body_changed and "content-encoding" in active.request.headers:
            active.request.headers.remove("content-encoding")
        self._outliers.picked(active.endpoints[0])
        return active

    async def _parse(
        self,
        plan: RequestPlan,
        incoming: IncomingRequest,
        request: InferenceRequest,
        started: float,
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
                in_turns=in_turns,
            )
        finally:
            self._parsing_took(parser, self._now() - started)
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
            raise Rejection(ErrorCode.INTERNAL, "results must be greater than zero")
        return result

    def _parsing_took(self, parser: Parser, seconds: float) -> None:
        took = self._parsing_timers.get(parser.type)
        if took is None:
            took = self._metrics.plugin_timer("RequestParsing", parser.type, parser.type)
            self._parsing_timers[parser.type] = took
        took(seconds)

    def _tell(self, request: InferenceRequest, result: SchedulingResult) -> None:
        if self._settings.emit_endpoint_scores:
            tell_scores(request, result)
        if self._settings.log_decisions:
            log.debug("decided", request_id=short_id(request), decision=decision_text(result))


async def _rewritten(
    request: InferenceRequest, body: bytes | None, *, in_turns: bool
) -> bytes | None:
    if in_turns:
        await asyncio.sleep(0)
    new_body = rewritten_body(request, body) if body is not None else None
    if in_turns and new_body is not None:
        await asyncio.sleep(0)
    return new_body
