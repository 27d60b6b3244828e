"""Who a request counts for where shares are kept apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.framework.request import DEFAULT_FAIRNESS_ID
from epp.request_control.incoming import FAIRNESS_HEADERS, first_header

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest
    from epp.request_control.plan import RequestPlan


def fairness_id_of(request: InferenceRequest, plan: RequestPlan) -> str:
    """The header's value, else the agent's identity, else the flow that all others share."""
    named = first_header(request.headers, FAIRNESS_HEADERS)
    if named:
        return named
    identity = plan.agent_identity.of_request(request) if plan.agent_identity else None
    return identity or DEFAULT_FAIRNESS_ID
