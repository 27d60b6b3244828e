"""What every transaction of a server shares."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from epp.gateway.replies import ErrorFormat

if TYPE_CHECKING:
    from epp.gateway.overload import LoadGuard
    from epp.observability.metrics import Metrics
    from epp.request_control.decision_log import DecisionLog
    from epp.request_control.director import Director
    from epp.request_control.reporting import Reporter
    from epp.request_control.response import ResponseContext
    from epp.request_control.tracing import RequestTracer
    from epp.support.tasks import TaskOwner

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Limits of a transaction. Times in seconds, sizes in bytes."""

    max_request_body_bytes: int = 64 << 20
    body_idle_timeout: float = 60.0
    error_format: ErrorFormat = ErrorFormat.TEXT
    skip_response: bool = False
    """End every stream after the request's answers: nothing is learnt of the response."""


class SaidOnce:
    """Warnings that one configuration earns once, not with every request."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warn(self, text: str, request_id: str | None) -> None:
        """Log `text`, a constant, the first time, with the request that showed it."""
        if text not in self._said:
            self._said.add(text)
            log.warning(text, **({"request_id": request_id} if request_id else {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayContext:
    """Collaborators of transactions."""

    director: Director
    response: ResponseContext
    guard: LoadGuard
    reporter: Reporter
    metrics: Metrics
    tasks: TaskOwner
    settings: GatewaySettings
    decisions: DecisionLog | None = None
    """Where rejections are noted among the decisions; None: nowhere."""
    tracer: RequestTracer | None = None
    """Who chooses the requests that are traced; None: none is."""
    said: SaidOnce = field(default_factory=SaidOnce)
    now: Callable[[], float] = time.monotonic
