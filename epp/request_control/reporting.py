"""What is told of each request: its metrics, and one line of the request log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from epp.framework.request import TerminationCause
from epp.observability.request_log import RequestLog, RequestRecord
from epp.request_control.incoming import REQUEST_ID_HEADER, request_path

if TYPE_CHECKING:
    from epp.framework.errors import Rejection
    from epp.framework.headers import Headers
    from epp.framework.request import InferenceRequest, InferenceResponse
    from epp.observability.metrics import Metrics
    from epp.observability.request_metrics import RequestMetrics
    from epp.request_control.active_request import ActiveRequest
    from epp.request_control.tracing import RequestTrace

FIRST_ERROR_STATUS = 400
MODEL_SERVER_ERROR = "ModelServerError"
UNKNOWN_ERROR = "Unknown"


class Reporter:
    """Writes metrics and the request log at the few moments a request has."""

    def __init__(
        self,
        metrics: Metrics,
        request_log: RequestLog | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._request_log = request_log
        self._now = now

    def answered(self, active: ActiveRequest) -> None:
        """The decision goes to the gateway now."""
        metrics = self._metrics
        active.answered_at = now = self._now()
        metrics.request_processing_seconds.observe(now - active.received_at)
        metrics.requests_in_flight.inc()
        if active.bodiless:
            return
        request = active.request
        active.metrics = metrics.request(
            request.incoming_model, request.target_model, request.fairness_id, request.priority
        )
        active.metrics.admitted(len(active.body) if active.body is not None else 0)
        active.metrics.running_started()

    def told(self, active: ActiveRequest) -> None:
        """The gateway knows the decision; of how it was made stays what is told at the end."""
        if active.trace is not None:
            active.trace.decided(active)
        active.settle(keeps_reason=self._request_log is not None)

    def ended(self, active: ActiveRequest, cause: TerminationCause) -> None:
        """The request is over."""
        self._metrics.terminated(cause)
        if active.answered_at is None or active.response is None:
            return
        self._metrics.requests_in_flight.dec()
        now = self._now()
        if active.response.started:
            self._metrics.answers.responded(active.response.status)
        if active.metrics is not None:
            active.metrics.running_ended()
            self._measure(active, active.metrics, active.response, cause, now)
        if self._request_log is not None:
            self._request_log.write(_record(active, active.response, cause, now))
        if active.trace is not None:
            active.trace.ended(active, cause)

    def _measure(
        self,
        active: ActiveRequest,
        metrics: RequestMetrics,
        response: InferenceResponse,
        cause: TerminationCause,
        now: float,
    ) -> None:
        if cause is TerminationCause.ERROR:
            metrics.error(UNKNOWN_ERROR)
        if cause is not TerminationCause.NATURAL or not response.started:
            return
        if response.status >= FIRST_ERROR_STATUS:
            metrics.error(MODEL_SERVER_ERROR)
        self._metrics.response_processing_seconds.observe(
            active.processing_seconds if response.streaming else now - active.response_started_at
        )
        metrics.completed(
            seconds=now - active.received_at,
            response_bytes=response.body_bytes if response.body_is_seen else None,
            streaming=response.streaming,
            ttft_seconds=active.ttft_seconds,
            usage=response.usage,
        )

    def rejected(
        self,
        headers: Headers,
        request: InferenceRequest | None,
        rejection: Rejection,
        received_at: float,
        trace: RequestTrace | None = None,
    ) -> None:
        """The client gets an error from us; `request` is None before anything was read of it."""
        metrics, now = self._metrics, self._now()
        metrics.request_processing_seconds.observe(now - received_at)
        metrics.answers.rejected(rejection.http_status, rejection.drop_reason or rejection.details)
        model = request.incoming_model if request else ""
        target = request.target_model if request else ""
        fairness_id = request.fairness_id if request else ""
        priority = request.priority if request else 0
        metrics.request(model, target, fairness_id, priority).error(rejection.code)
        if self._request_log is not None:
            self._request_log.write(
                RequestRecord(
                    method=headers.get(":method") or "",
                    path=request_path(headers),
                    model=model,
                    target_model=target,
                    reason=rejection.log_message,
                    status=rejection.http_status,
                    details=rejection.access_log_details,
                    seconds=now - received_at,
                    priority=priority,
                    fairness_id=fairness_id,
                    request_id=headers.get(REQUEST_ID_HEADER) or "",
                    trace_id="" if trace is None else trace.trace_id,
                )
            )
        if trace is not None:
            trace.rejected(request, rejection)

    def overtaken(self, headers: Headers, received_at: float) -> None:
        """A response came although the request had not been answered."""
        if self._request_log is not None:
            self._request_log.write(
                RequestRecord(
                    method=headers.get(":method") or "",
                    path=request_path(headers),
                    reason="answered before a pick, by the gateway or an upstream",
                    seconds=self._now() - received_at,
                    request_id=headers.get(REQUEST_ID_HEADER) or "",
                )
            )


def _record(
    active: ActiveRequest, response: InferenceResponse, cause: TerminationCause, now: float
) -> RequestRecord:
    request = active.request
    return RequestRecord(
        method=request.headers.get(":method") or "",
        path=request.path,
        model=request.incoming_model,
        target_model=request.target_model,
        endpoint=active.destination or "",
        served=active.serving.address if active.serving is not None else "",
        reason=active.reason if response.started else f"{active.reason}, response not followed",
        status=response.status or None,
        seconds=now - active.received_at,
        ttft_seconds=active.ttft_seconds,
        usage=response.usage,
        priority=request.priority,
        fairness_id=request.fairness_id,
        streaming=response.streaming,
        request_id=request.id,
        trace_id="" if active.trace is None else active.trace.trace_id,
        cause=cause,
    )
