"""The end of a request that had been decided: hooks, metrics and the log line, once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from epp.framework.headers import Headers
from epp.framework.request import InferenceResponse, TerminationCause

if TYPE_CHECKING:
    from epp.request_control.active_request import ActiveRequest
    from epp.request_control.body_hooks import BodyHooks
    from epp.request_control.outliers import OutlierMemory
    from epp.request_control.reporting import Reporter


class Completion:
    """Listener for the end of active requests."""

    def __init__(
        self,
        body_hooks: BodyHooks,
        reporter: Reporter,
        outliers: OutlierMemory,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._body_hooks = body_hooks
        self._outliers = outliers
        self._reporter = reporter
        self._now = now

    def __call__(self, active: ActiveRequest, cause: TerminationCause) -> None:
        """Tell the hooks and the reporter how `active` ended."""
        response = active.response
        if response is None:
            response = active.response = InferenceResponse(
                headers=Headers(), status=0, streaming=False
            )
        response.ended = True
        response.termination_cause = cause
        if active.endpoints:
            first = active.endpoints[0]
            endpoint = active.serving or first
            silent_for = 0.0
            if cause is TerminationCause.CLIENT_DISCONNECT and not response.started:
                silent_for = self._now() - (active.answered_at or active.received_at)
            status = 0 if active.is_answered_by_gateway else response.status
            self._outliers.ended(endpoint, status, silent_for=silent_for)
            if endpoint.id != first.id:
                # Retried elsewhere: nothing is known of the first, but it is not being probed.
                self._outliers.ended(first, 0)
            active.hooks.ended(active.request, response, endpoint)
        self._body_hooks.notify(active)
        self._reporter.ended(active, cause)
