"""Which requests go on to be scheduled, and which are turned away before or right after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.errors import DropReason, ErrorCode, PlainRejection

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.headers import Headers
    from epp.framework.request import InferenceRequest
    from epp.framework.scheduling_results import SchedulingResult
    from epp.request_control.plan import RequestPlan

SATURATED = 1.0
PREFER_HEADER = "prefer"
IF_AVAILABLE = "if-available"


def shed_at_saturation(
    request: InferenceRequest, candidates: Sequence[Endpoint], plan: RequestPlan
) -> None:
    """Requests of negative priority go when there is no room; raises `Rejection` with 429."""
    detector = plan.saturation_detector
    if request.priority >= 0 or detector is None:
        return
    if detector.saturation(candidates) >= SATURATED:
        raise PlainRejection(
            ErrorCode.RESOURCE_EXHAUSTED,
            "system saturated, sheddable request dropped",
            drop_reason=DropReason.SATURATED,
            retry_after=1,
        )


def require_available_cache(
    request: InferenceRequest, result: SchedulingResult, plan: RequestPlan
) -> None:
    """`Prefer: if-available` wants an endpoint that holds some of the prompt, else 412."""
    if not prefers_available(request.headers):
        return
    picked = result.profiles[result.primary].picked
    match = plan.prefix_match.of(request, picked) if plan.prefix_match else None
    if match is None or match.match_blocks < 1:
        raise PlainRejection(
            ErrorCode.PRECONDITION_FAILED, "no decode worker has the requested KV cache"
        )


def prefers_available(headers: Headers) -> bool:
    """Whether any `prefer` header has the token `if-available`, whatever its parameters."""
    if PREFER_HEADER not in headers:
        return False
    return any(
        preference.partition(";")[0].strip().lower() == IF_AVAILABLE
        for name, value in headers
        if name == PREFER_HEADER
        for preference in value.decode("utf-8", "replace").split(",")
    )
