"""What every transaction of a server shares."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epp.gateway.replies import ErrorFormat

if TYPE_CHECKING:
    from epp.gateway.overload import LoadGuard
    from epp.observability.metrics import Metrics
    from epp.request_control.director import Director
    from epp.request_control.reporting import Reporter
    from epp.request_control.response import ResponseContext
    from epp.support.tasks import TaskOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Limits of a transaction. Times in seconds, sizes in bytes."""

    max_request_body_bytes: int = 64 << 20
    body_idle_timeout: float = 60.0
    error_format: ErrorFormat = ErrorFormat.TEXT
    skip_response: bool = False
    """End every stream after the request's answers: nothing is learnt of the response."""


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
    now: Callable[[], float] = time.monotonic
