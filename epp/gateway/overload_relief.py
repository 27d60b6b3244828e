"""What becomes of a request that an overloaded process is asked to decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from epp.datastore.inference_pool import FailureMode
from epp.gateway.overload import Pressure
from epp.gateway.rejections import overloaded

if TYPE_CHECKING:
    from epp.gateway.context import GatewayContext
    from epp.request_control.active_request import ActiveRequest
    from epp.request_control.incoming import IncomingRequest


def relief(
    context: GatewayContext,
    pressure: Pressure,
    signal: str,
    incoming: Callable[[], IncomingRequest],
) -> ActiveRequest:
    """Decision 1's overload row: a `Rejection` early, or a pick without reading on."""
    fail_open = context.director.failure_mode is FailureMode.FAIL_OPEN
    if pressure is Pressure.EXTREME or not fail_open:
        context.guard.cut_short(signal, "rejected")
        raise overloaded(signal)
    context.guard.cut_short(signal, "picked")
    return context.director.best_effort(incoming(), "overload")
