"""What requests get that can't be decided as configured (decision 1)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from epp.datastore.inference_pool import FailureMode, failure_mode_in_force
from epp.framework.errors import DropReason, ErrorCode, PlainRejection
from epp.request_control.active_request import ActiveRequest
from epp.request_control.incoming import REQUEST_ID_HEADER
from epp.request_control.tracing import TRACEPARENT_HEADER
from epp.scheduling.least_in_flight import least_in_flight
from epp.support.fault_log import FaultLog

if TYPE_CHECKING:
    from epp.datastore.snapshot import Snapshot
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest, TerminationCause
    from epp.observability.metrics import Metrics
    from epp.request_control.candidates import Candidates
    from epp.request_control.decision_log import DecisionLog
    from epp.request_control.incoming import IncomingRequest
    from epp.request_control.outliers import OutlierMemory
    from epp.request_control.response_hooks import ResponseHookRunner

log = structlog.get_logger(__name__)


class DeadlinePassed(Exception):
    """The decision took longer than it may."""


class FailureAnswers:
    """Answers by the failure mode in force: with 503, or by the simplest pick there is.

    Everything here raises `Rejection` when there is no endpoint to pick, too.
    """

    def __init__(
        self,
        candidates: Candidates,
        outliers: OutlierMemory,
        snapshot: Callable[[], Snapshot],
        *,
        forced_mode: FailureMode | None,
        metrics: Metrics,
        on_end: Callable[[ActiveRequest, TerminationCause], None],
        rng: random.Random,
        decisions: DecisionLog | None = None,
    ) -> None:
        self._candidates = candidates
        self._outliers = outliers
        self._snapshot = snapshot
        self._forced_mode = forced_mode
        self._metrics = metrics
        self._on_end = on_end
        self._rng = rng
        self._decisions = decisions
        self._faults = FaultLog("picking failed", log.error)

    @property
    def mode(self) -> FailureMode:
        """What a fault of ours means for the request, as of now."""
        return failure_mode_in_force(self._forced_mode, self._snapshot().pool)

    def fault(
        self,
        error: BaseException,
        incoming: IncomingRequest,
        request: InferenceRequest,
        hooks: ResponseHookRunner,
    ) -> ActiveRequest:
        """The pipeline raised `error`."""
        if isinstance(error, DeadlinePassed):
            reason, text = "deadline", "no endpoint was picked in time"
        else:
            reason, text = "internal", "internal error while picking an endpoint"
        self._faults.tell(reason, error, request_id=request.id)
        if self.mode is FailureMode.FAIL_CLOSE:
            raise PlainRejection(
                ErrorCode.SERVICE_UNAVAILABLE, text, details=reason, retry_after=1
            ) from error
        return self.best_effort(incoming, _untouched(request), hooks, reason)

    def never_synced(
        self, incoming: IncomingRequest, request: InferenceRequest, hooks: ResponseHookRunner
    ) -> ActiveRequest:
        """The pool was waited for in vain."""
        if self.mode is FailureMode.FAIL_CLOSE:
            raise PlainRejection(
                ErrorCode.SERVICE_UNAVAILABLE,
                "the pool has not been seen yet",
                drop_reason=DropReason.NO_ENDPOINTS,
                details="not_synced",
                retry_after=1,
            )
        self._metrics.failed_open("not-synced")
        return self._as_it_came(incoming, request, hooks, (), "pool not seen yet, gateway chooses")

    def best_effort(
        self,
        incoming: IncomingRequest,
        request: InferenceRequest,
        hooks: ResponseHookRunner,
        reason: str,
    ) -> ActiveRequest:
        """Pick without looking at the body: what FailOpen does instead of giving up."""
        endpoint = least_in_flight(self._candidates.of(incoming, self._snapshot()), self._rng)
        self._metrics.failed_open(reason)
        active = self._as_it_came(incoming, request, hooks, (endpoint,), f"fail open ({reason})")
        self._outliers.picked(endpoint)
        return active

    def _as_it_came(
        self,
        incoming: IncomingRequest,
        request: InferenceRequest,
        hooks: ResponseHookRunner,
        endpoints: tuple[Endpoint, ...],
        note: str,
    ) -> ActiveRequest:
        if self._decisions is not None:
            self._decisions.failed_open(request, incoming.received_at, endpoints, note)
        return ActiveRequest(
            incoming=incoming,
            request=request,
            endpoints=endpoints,
            hooks=hooks,
            on_end=self._on_end,
            note=note,
        )


def _untouched(request: InferenceRequest) -> InferenceRequest:
    """`request` without what plugins added to it: none of them has a say in where it goes now.

    A request of its own to those that follow the response, who may have seen the other one end.
    """
    request.let_go_of_body()
    changes = request.headers.changes
    for name in [name for name, value in changes.items() if value is not None]:
        if name not in (REQUEST_ID_HEADER, TRACEPARENT_HEADER):
            del changes[name]
    return replace(
        request,
        attributes={},
        candidate_attributes={},
        transient_attributes=[],
        dynamic_metadata={},
    )
