"""Response body hooks, run in order behind the bytes they are told about (pitfall 10)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from epp.framework.request import InferenceResponse
    from epp.request_control.active_request import ActiveRequest
    from epp.support.tasks import TaskOwner

MAX_PENDING = 100
"""Calls one request may be behind; then the newest state replaces the last one that waits, which
loses nothing but steps in between, since every state contains those before it."""


class BodyHooks:
    """Queues what the hooks of each request have yet to see."""

    def __init__(self, tasks: TaskOwner) -> None:
        self._tasks = tasks

    def notify(self, active: ActiveRequest) -> None:
        """Show the hooks the response as it is now, after everything shown before."""
        if not active.hooks.follow_body or active.response is None or not active.endpoints:
            return
        states = active.unseen_states
        if states is None:
            states = active.unseen_states = deque()
        if len(states) >= MAX_PENDING:
            states.pop()
        states.append(replace(active.response))
        if not active.hooks_running:
            active.hooks_running = True
            self._tasks.spawn(
                self._run(active, states),
                name="response body hooks",
                log_values=lambda: {"request_id": active.request.id},
            )

    async def _run(self, active: ActiveRequest, states: deque[InferenceResponse]) -> None:
        try:
            while states:
                await active.hooks.response_body(
                    active.request, states.popleft(), active.serving or active.endpoints[0]
                )
        finally:
            active.hooks_running = False
