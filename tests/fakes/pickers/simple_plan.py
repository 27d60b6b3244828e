"""The simplest plan there is, for tests of everything else: the least loaded endpoint."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.framework.request_handling import Parser
from epp.framework.scheduling import Scheduler
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.observability.metrics import Metrics
from epp.plugins.parsers.defaults import default_parsers
from epp.request_control.hooks import Hooks
from epp.request_control.parsing import ParserSelector
from epp.request_control.plan import RequestPlan
from epp.request_control.request_hooks import HookRunner
from epp.scheduling.least_in_flight import least_in_flight


class LeastInFlightScheduler:
    """Spreads requests evenly without any plugin."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def schedule(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> SchedulingResult:
        endpoint = least_in_flight(candidates, self._rng)
        picked = ProfileResult(endpoints=(endpoint,), candidates=candidates)
        return SchedulingResult(primary="default", profiles={"default": picked})


def simple_plan(
    metrics: Metrics,
    rng: random.Random,
    *,
    hooks: Hooks | None = None,
    scheduler: Scheduler | None = None,
    parsers: Sequence[Parser] | None = None,
    now: Callable[[], float] = time.monotonic,
) -> RequestPlan:
    """The default parsers, no hooks and a `LeastInFlightScheduler`, unless told otherwise."""
    return RequestPlan(
        parsers=ParserSelector(default_parsers() if parsers is None else parsers),
        hooks=HookRunner(hooks or Hooks(), metrics, now),
        scheduler=scheduler or LeastInFlightScheduler(rng),
    )
