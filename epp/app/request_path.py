"""Builds the request path: everything between a stream's bytes and the pool's snapshot."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epp.gateway.context import GatewayContext, GatewaySettings
from epp.gateway.overload import LoadGuard, OverloadLimits
from epp.gateway.service import ExternalProcessor
from epp.request_control.body_hooks import BodyHooks
from epp.request_control.completion import Completion
from epp.request_control.decision_log import DecisionLog
from epp.request_control.director import Director
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.outliers import OutlierMemory, OutlierSettings
from epp.request_control.parser_steps import ParserSteps
from epp.request_control.rehearsal import Rehearsal
from epp.request_control.reporting import Reporter
from epp.request_control.response import ResponseContext
from epp.request_control.response_headers import ResponseSettings
from epp.support.tasks import TaskOwner

if TYPE_CHECKING:
    from epp.datastore.datastore import Datastore
    from epp.observability.metrics import Metrics
    from epp.observability.request_log import RequestLog
    from epp.request_control.plan import RequestPlan
    from epp.request_control.tracing import RequestTracer


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPathSettings:
    """Settings of every room on the request path."""

    director: DirectorSettings = field(default_factory=DirectorSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    response: ResponseSettings = field(default_factory=ResponseSettings)
    overload: OverloadLimits = field(default_factory=OverloadLimits)
    outliers: OutlierSettings = field(default_factory=OutlierSettings)
    decision_log_size: int = 256
    """Decisions that are kept to be explained; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPath:
    """What `Application` runs: the handler of streams, its guard and its tasks."""

    processor: ExternalProcessor
    director: Director
    guard: LoadGuard
    outliers: OutlierMemory
    decisions: DecisionLog | None
    """The last ones; None: they are not kept."""
    rehearsal: Rehearsal
    tasks: TaskOwner


def build_request_path(
    datastore: Datastore,
    metrics: Metrics,
    settings: RequestPathSettings,
    *,
    plan: RequestPlan,
    rng: random.Random,
    request_log: RequestLog | None = None,
    now: Callable[[], float] = time.monotonic,
    note_request: Callable[[], None] = lambda: None,
    tracer: RequestTracer | None = None,
) -> RequestPath:
    """Connect the rooms."""
    tasks = TaskOwner()
    body_hooks = BodyHooks(tasks)
    reporter = Reporter(metrics, request_log, now)
    guard = LoadGuard(settings.overload, metrics, now)
    outliers = OutlierMemory(
        metrics, lambda: datastore.snapshot().endpoints, settings.outliers, now
    )
    size = settings.decision_log_size
    decisions = DecisionLog(size, now) if size else None
    datastore.subscribe(lambda change: outliers.forget(change.removed))
    director = Director(
        datastore=datastore,
        plan=plan,
        outliers=outliers,
        metrics=metrics,
        on_end=Completion(body_hooks, reporter, outliers, now),
        settings=settings.director,
        rng=rng,
        now=now,
        note_request=note_request,
        decisions=decisions,
    )
    context = GatewayContext(
        director=director,
        response=ResponseContext(
            datastore=datastore,
            body_hooks=body_hooks,
            metrics=metrics,
            settings=settings.response,
            parsing=ParserSteps("ResponseParsing", metrics.plugin_timer),
            now=now,
        ),
        guard=guard,
        reporter=reporter,
        metrics=metrics,
        tasks=tasks,
        settings=settings.gateway,
        decisions=decisions,
        tracer=tracer,
        now=now,
    )
    return RequestPath(
        processor=ExternalProcessor(context),
        director=director,
        guard=guard,
        outliers=outliers,
        decisions=decisions,
        rehearsal=Rehearsal(
            datastore=datastore,
            plan=lambda: director.plan,
            outliers=outliers,
            settings=settings.director,
            rng=random.Random(),
            now=now,
        ),
        tasks=tasks,
    )
