"""Keeps requests away from servers that failed of late, from the first failure on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from epp.framework import (
    CounterSpec,
    DataType,
    Endpoint,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    PluginContext,
    ResponseProgress,
    Scope,
    Scorer,
    TerminationCause,
)


@dataclass(frozen=True, slots=True)
class Failures:
    """How many requests failed of late: each counts 1, and half as much after a while."""

    count: float
    at: float

    def by(self, now: float, half_life_seconds: float) -> float:
        return self.count * math.exp2((self.at - now) / half_life_seconds)


RECENT_FAILURES: DataType[Failures] = DataType(
    name="acme.example/RecentFailures",
    scope=Scope.ENDPOINT,
    default_producer="recent-failures-tracker",
    created_when_missing=True,
    value=Failures,
)
FAILED = CounterSpec(
    name="acme_failed_requests_total", help="Requests that failed.", labels=("status",)
)


class HalfLife(Parameters):
    half_life_seconds: float = Field(
        30.0, gt=0, description="Time after which a failure counts half."
    )


class RecentFailuresTracker(ResponseProgress):
    """Counts the failed requests of each endpoint."""

    metrics = (FAILED,)

    def __init__(self, parameters: HalfLife, context: PluginContext) -> None:
        self._half_life = parameters.half_life_seconds
        self._now = context.now
        self._failures = context.produces(RECENT_FAILURES)
        self._before = context.consumes(RECENT_FAILURES, producer=context.name)
        self._failed = context.metrics.counter(FAILED)

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        if response.status < 500 and response.termination_cause is not TerminationCause.ERROR:
            return
        now = self._now()
        before = self._before.on(endpoint)
        count = 1 + (before.by(now, self._half_life) if before else 0.0)
        self._failures.put_on(endpoint, Failures(count, now))
        self._failed.labels((str(response.status),)).inc()


class RecentFailuresScorer(Scorer):
    """Avoids endpoints whose requests failed of late."""

    def __init__(self, parameters: HalfLife, context: PluginContext) -> None:
        self._half_life = parameters.half_life_seconds
        self._now = context.now
        self._failures = context.consumes(RECENT_FAILURES)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        now = self._now()
        return [
            1 / (1 + failures.by(now, self._half_life)) if failures else 1.0
            for failures in self._failures.values(request, endpoints)
        ]
