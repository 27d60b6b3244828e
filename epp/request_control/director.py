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
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import structlog

from epp.datastore.inference_pool import FailureMode, failure_mode_in_force
from epp.framework.errors import DropReason, ErrorCode, Rejection
from epp.framework.request import InferenceRequest, TerminationCause
from epp.observability.safe_text import printable
from epp.request_control.active_request import ActiveRequest
from epp.request_control.admission import require_available_cache, shed_at_saturation
from epp.request_control.candidates import locate_candidates
from epp.request_control.explanation import decision_text, scores_by_endpoint
from epp.request_control.fairness import fairness_id_of
from epp.request_control.incoming import REQUEST_ID_HEADER
from epp.request_control.model_rewrite import resolve_model, rewritten_body
from epp.request_control.objectives import priority_of
from epp.request_control.parsing import decoded, request_path
from epp.scheduling.least_in_flight import least_in_flight
from epp.support.plugin_faults import PLUGIN_FAULTS, is_cancellation

if TYPE_CHECKING:
    from epp.datastore.datastore import Snapshot
    from epp.framework.endpoint import Endpoint
    from epp.framework.request_handling import Parser
    from epp.framework.scheduling import Scheduler, SchedulingResult
    from epp.observability.metrics import Metrics
    from epp.request_control.incoming import IncomingRequest
    from epp.request_control.outliers import OutlierMemory
    from epp.request_control.plan import RequestPlan

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

MOST_ID = 128
"""Characters of a request's id in the log: clients choose it."""

SCORES_NAMESPACE = "envoy.lb"
SCORES_KEY = "x-gateway-destination-endpoint-scores"


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


class PoolView(Protocol):
    """What is read of the pool: all that a decision needs of a datastore."""

    @property
    def priorities(self) -> Mapping[str, int]:
        """Priorities by the name of the objective a request asks for."""

    def snapshot(self) -> Snapshot:
        """The pool as of now."""

    async def wait_synced(self) -> None:
        """Return once the pool has been seen."""


class _DeadlinePassed(Exception):
    """The decision took longer than it may."""


class Director:
    """Decides requests by the plan in force."""

    def __init__(
        self,
        *,
        datastore: PoolView,
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
        self._hooks_may_wait = plan.hooks.hooks.may_wait

    def use(self, plan: RequestPlan) -> None:
        """Decide by another plan from now on; requests that are under way keep theirs."""
        self._plan = plan
        self._hooks_may_wait = plan.hooks.hooks.may_wait

    @property
    def failure_mode(self) -> FailureMode:
        """What a fault of ours means for the request, as of now."""
        return failure_mode_in_force(self._settings.failure_mode, self._datastore.snapshot().pool)

    @property
    def may_wait(self) -> bool:
        """Whether a decision taken now needs `decide_waiting`."""
        return self._hooks_may_wait or self._must_sync

    @property
    def _must_sync(self) -> bool:
        """A pool that is gone has no endpoints, which is an answer (decision 1)."""
        snapshot = self._datastore.snapshot()
        return not snapshot.synced and not snapshot.is_pool_gone

    def decide(self, incoming: IncomingRequest) -> ActiveRequest:
        """Decide at once. Raises `Rejection`; only while `may_wait` is false."""
        request = self._new_request(incoming)
        try:
            return _completed(self._pipeline(incoming, request))
        except Rejection:
            raise
        except PLUGIN_FAULTS as error:  # the failure mode answers it
            return self._contain(error, incoming, request)

    async def decide_waiting(self, incoming: IncomingRequest) -> ActiveRequest:
        """Decide, waiting where the configuration says so. Raises `Rejection`."""
        request = self._new_request(incoming)
        try:
            async with asyncio.timeout(self._settings.decision_timeout):
                if self._must_sync:
                    await self._datastore.wait_synced()
                return await self._pipeline(incoming, request)
        except Rejection:
            raise
        except PLUGIN_FAULTS as error:  # the failure mode answers it
            if is_cancellation(error):
                raise
            if self._must_sync:
                return self._never_synced(incoming, request)
            if isinstance(error, TimeoutError):
                error = _DeadlinePassed()
            return self._contain(error, incoming, request)

    def best_effort(self, incoming: IncomingRequest, reason: str) -> ActiveRequest:
        """Pick without looking at the body: what FailOpen does instead of giving up.

        Raises `Rejection` when there is no endpoint to pick.
        """
        return self._best_effort(incoming, self._new_request(incoming), reason)

    def _new_request(self, incoming: IncomingRequest) -> InferenceRequest:
        headers = incoming.headers
        request_id = headers.get(REQUEST_ID_HEADER)
        if not request_id:
            request_id = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
            headers.set(REQUEST_ID_HEADER, request_id)
        incoming.request = request = InferenceRequest(
            id=request_id,
            path=request_path(headers),
            headers=headers,
            parsed=None,
            size_bytes=len(incoming.body or b""),
        )
        return request

    async def _pipeline(
        self, incoming: IncomingRequest, request: InferenceRequest
    ) -> ActiveRequest:
        plan = self._plan
        self._note_request()
        deadline = self._now() + self._settings.decision_timeout
        parser, body = self._parse(plan, incoming, request)
        if incoming.body is not None:
            resolve_model(request)
        request.priority = priority_of(request.headers, self._datastore.priorities)
        plan.hooks.request_header(request)
        request.fairness_id = fairness_id_of(request, plan)
        candidates = self._candidates(incoming)
        shed_at_saturation(request, candidates, plan)
        candidates = tuple(plan.hooks.screen(request, candidates))
        await plan.hooks.produce(request, candidates)
        plan.hooks.admit(request, candidates)
        if self._now() > deadline:
            raise _DeadlinePassed
        result = self._schedule(plan.scheduler, request, candidates)
        require_available_cache(request, result, plan)
        self._tell(request, result)
        new_body = rewritten_body(request, body) if body is not None else None
        active = ActiveRequest(
            request=request,
            endpoints=result.endpoints,
            hooks=plan.hooks,
            result=result,
            received_at=incoming.received_at,
            on_end=self._on_end,
            parser=parser,
            body=incoming.body if new_body is None else new_body,
            body_changed=new_body is not None,
            bodiless=incoming.bodiless,
            skip_response=request.parsed is not None and request.parsed.skip_response_processing,
            reserve=incoming.reserve,
        )
        return self._before_sending(active, result, deadline)

    def _before_sending(
        self, active: ActiveRequest, result: SchedulingResult, deadline: float
    ) -> ActiveRequest:
        try:
            active.hooks.pre_request(active.request, result)
            if self._now() > deadline:
                raise _DeadlinePassed
        except BaseException:
            active.end(TerminationCause.ERROR)
            raise
        finally:
            active.request.let_go_of_body()
        if active.body_changed and "content-encoding" in active.request.headers:
            active.request.headers.remove("content-encoding")
        self._outliers.picked(active.endpoints[0])
        return active

    def _parse(
        self, plan: RequestPlan, incoming: IncomingRequest, request: InferenceRequest
    ) -> tuple[Parser | None, bytes | None]:
        """Parser of the path and the decoded body; sets `request.parsed`."""
        if incoming.body is None:
            return None, None
        parser = plan.parsers.select(request.path)
        body = incoming.body
        started = self._now()
        try:
            if parser.suffixes:
                encoding = request.headers.get("content-encoding") or ""
                body = decoded(body, encoding, self._settings.max_request_body_bytes)
            request.parsed = parser.parse_request(request.path, body)
        except Rejection:
            if not incoming.body_may_be_cut:
                raise
        finally:
            self._metrics.plugin_duration(
                "RequestParsing", parser.type, parser.type, self._now() - started
            )
        return parser, body

    def _candidates(self, incoming: IncomingRequest) -> Sequence[Endpoint]:
        candidates = locate_candidates(
            self._datastore.snapshot(),
            incoming.subset if self._settings.use_subset else None,
        )
        if not candidates:
            raise no_endpoints()
        return self._outliers.among(candidates)

    def _schedule(
        self, scheduler: Scheduler, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> SchedulingResult:
        started = self._now()
        result: SchedulingResult | None = None
        try:
            result = scheduler.schedule(request, candidates)
        finally:
            self._metrics.scheduled(
                self._now() - started,
                request.target_model,
                result.endpoints[0] if result is not None and result.endpoints else None,
            )
        if not result.endpoints:
            raise Rejection(ErrorCode.INTERNAL, "results must be greater than zero")
        return result

    def _tell(self, request: InferenceRequest, result: SchedulingResult) -> None:
        if self._settings.emit_endpoint_scores and (scores := scores_by_endpoint(result)):
            namespace = request.dynamic_metadata.setdefault(SCORES_NAMESPACE, {})
            namespace[SCORES_KEY] = scores
        if self._settings.log_decisions:
            log.debug("decided", request_id=_short_id(request), decision=decision_text(result))

    def _contain(
        self, error: BaseException, incoming: IncomingRequest, request: InferenceRequest
    ) -> ActiveRequest:
        if isinstance(error, _DeadlinePassed):
            reason, text = "deadline", "no endpoint was picked in time"
        else:
            reason, text = "internal", "internal error while picking an endpoint"
            log.error("picking failed", request_id=_short_id(request), exc_info=error)
        if self.failure_mode is FailureMode.FAIL_CLOSE:
            raise Rejection(
                ErrorCode.SERVICE_UNAVAILABLE, text, details=reason, retry_after=1
            ) from error
        return self._best_effort(incoming, _untouched(request), reason)

    def _never_synced(self, incoming: IncomingRequest, request: InferenceRequest) -> ActiveRequest:
        if self.failure_mode is FailureMode.FAIL_CLOSE:
            raise Rejection(
                ErrorCode.SERVICE_UNAVAILABLE,
                "the pool has not been seen yet",
                drop_reason=DropReason.NO_ENDPOINTS,
                details="not_synced",
                retry_after=1,
            )
        self._metrics.failed_open("not-synced")
        return self._original(incoming, request, (), "pool not seen yet, gateway chooses")

    def _best_effort(
        self, incoming: IncomingRequest, request: InferenceRequest, reason: str
    ) -> ActiveRequest:
        endpoint = least_in_flight(self._candidates(incoming), self._rng)
        self._metrics.failed_open(reason)
        return self._original(incoming, request, (endpoint,), f"fail open ({reason})")

    def _original(
        self,
        incoming: IncomingRequest,
        request: InferenceRequest,
        endpoints: tuple[Endpoint, ...],
        reason: str,
    ) -> ActiveRequest:
        """The request as it came, sent to `endpoints`."""
        return ActiveRequest(
            request=request,
            endpoints=endpoints,
            hooks=self._plan.hooks,
            note=reason,
            received_at=incoming.received_at,
            on_end=self._on_end,
            body=incoming.body,
            bodiless=incoming.bodiless,
            reserve=incoming.reserve,
        )


def _short_id(request: InferenceRequest) -> str:
    return printable(request.id, MOST_ID)


def _untouched(request: InferenceRequest) -> InferenceRequest:
    """`request` without what plugins added to it: none of them has a say in where it goes now.

    A request of its own to those that follow the response, who may have seen the other one end.
    """
    request.let_go_of_body()
    changes = request.headers.changes
    for name in [name for name, value in changes.items() if value is not None]:
        if name != REQUEST_ID_HEADER:
            del changes[name]
    return replace(
        request,
        attributes={},
        candidate_attributes={},
        transient_attributes=[],
        dynamic_metadata={},
    )


def no_endpoints() -> Rejection:
    """No ready endpoint, or none in the subset: 503 in both failure modes (decision 1)."""
    return Rejection(
        ErrorCode.SERVICE_UNAVAILABLE,
        "failed to find endpoint candidates for serving the request",
        drop_reason=DropReason.NO_ENDPOINTS,
        retry_after=1,
    )


def _completed(pipeline: Coroutine[Any, Any, Result]) -> Result:
    """Result of a coroutine that has nothing to wait for."""
    try:
        pipeline.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    pipeline.close()
    raise RuntimeError("a decision waited although nothing is configured to wait")
