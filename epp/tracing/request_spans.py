"""Spans of one request, from what was kept of it: `gateway.request` and what is below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.framework.request import TerminationCause
from epp.request_control.decision_log import MOST_NAME
from epp.request_control.reporting import FIRST_ERROR_STATUS
from epp.support.safe_text import printable
from epp.tracing.profile_spans import add_profile, add_unpicked
from epp.tracing.stage_spans import add_stages

if TYPE_CHECKING:
    from epp.framework.errors import Rejection
    from epp.framework.request import InferenceRequest
    from epp.request_control.tracing import AnsweredRequest
    from epp.tracing.span import AttributeValue, SpanList


def request_attributes(request: InferenceRequest) -> dict[str, AttributeValue]:
    """What nearly every span says of its request."""
    attributes: dict[str, AttributeValue] = {}
    if request.target_model:
        attributes["gen_ai.request.model"] = printable(request.target_model, MOST_NAME)
    if request.id:
        attributes["gen_ai.request.id"] = printable(request.id, MOST_NAME)
    return attributes


def add_orchestration(
    spans: SpanList,
    parent: int,
    request: InferenceRequest,
    ended_at: float,
    error: str | None = None,
) -> None:
    """From the last byte of the request to its answer, and the scheduling cycle below."""
    trail = request.trail
    if trail is None:
        return
    attributes: dict[str, AttributeValue] = {
        "target_model": printable(request.target_model, MOST_NAME),
        "request_prio": request.priority,
    }
    span_id = spans.add(
        "gateway.request_orchestration",
        parent,
        trail.started_at,
        ended_at,
        attributes,
        error,
        is_server=True,
    )
    common = request_attributes(request)
    for name, profile in trail.unpicked:
        add_unpicked(spans, span_id, name, profile, common)
    result = trail.result
    if result is not None:
        for name, profile in result.profiles.items():
            add_profile(spans, span_id, name, profile, common)
        add_stages(spans, span_id, trail, result, common)


def end_attributes(answered: AnsweredRequest, cause: TerminationCause) -> dict[str, AttributeValue]:
    """How a request went that had been answered."""
    attributes = request_attributes(answered.request)
    if answered.serving is not None:
        attributes["epp.endpoint"] = answered.serving.address
    if answered.note:
        attributes["epp.note"] = answered.note
    attributes["epp.termination_cause"] = str(cause)
    response = answered.response
    if response is None:
        return attributes
    if response.status:
        attributes["http.response.status_code"] = response.status
    if response.usage is not None:
        attributes |= {
            "gen_ai.usage.input_tokens": response.usage.prompt_tokens or 0,
            "gen_ai.usage.output_tokens": response.usage.completion_tokens or 0,
        }
    return attributes


def error_at_end(answered: AnsweredRequest, cause: TerminationCause) -> str | None:
    """What failed of a request that had been answered; a client that went away is no failure."""
    if cause is TerminationCause.ERROR:
        return "the exchange with the gateway failed"
    status = 0 if answered.response is None else answered.response.status
    return f"the model server answered {status}" if status >= FIRST_ERROR_STATUS else None


def rejection_attributes(
    request: InferenceRequest | None, rejection: Rejection
) -> dict[str, AttributeValue]:
    """How a request went that got an error from us."""
    attributes = {} if request is None else request_attributes(request)
    attributes["http.response.status_code"] = rejection.http_status
    attributes["error.type"] = rejection.access_log_details
    return attributes
