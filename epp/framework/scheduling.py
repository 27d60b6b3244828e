"""Contracts of the scheduling cycle: candidates in, endpoints out. Pure and synchronous.

the profile handler names profiles → each runs its filters, scorers and picker → …
→ the handler names no more profiles → the handler tells which one is primary
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from epp.framework.plugin import Plugin

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint, EndpointMetrics
    from epp.framework.request import InferenceRequest
    from epp.framework.scheduling_results import ProfileResult, SchedulingResult


class Filter(Plugin):
    """Takes endpoints out of the candidates of its profile."""

    @abstractmethod
    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints that may serve `request`; some of `endpoints`, in any order."""


class Scorer(Plugin):
    """Tells how well endpoints suit a request."""

    @abstractmethod
    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Sequence[float]:
        """One number for each of `endpoints` (never empty), in their order.

        What is outside of 0 to 1 is clamped; NaN says that there is no score, and adds nothing.
        """


class SparseScores(list[float]):
    """Scores that are 0 but for few, so that few have to be looked at; not to be changed."""

    __slots__ = ("others",)

    def __init__(self, count: int, others: Mapping[int, float]) -> None:
        """`others` are those that differ, by the place of their endpoint among `count`."""
        super().__init__([0.0] * count)
        for place, score in others.items():
            self[place] = score
        self.others = others


class MetricsScorer(Scorer):
    """A scorer that looks at nothing but what model servers report, whatever the request.

    Its scores are kept until one of the reports changes, rather than asked for per request.
    """

    @abstractmethod
    def score_metrics(self, metrics: Sequence[EndpointMetrics]) -> Sequence[float]:
        """One number for each of `metrics` (never empty), in their order; as `score` gives them.

        Depends on nothing else, the time included.
        """

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Sequence[float]:
        """What the metrics of `endpoints` come to."""
        return self.score_metrics([endpoint.state.metrics for endpoint in endpoints])


class Picker(Plugin):
    """Chooses among scored endpoints."""

    @abstractmethod
    def pick(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint], totals: Sequence[float]
    ) -> list[Endpoint]:
        """At least one of `endpoints` (never empty), best first; `totals` are in their order.

        The first is the choice; the gateway falls back to the others.
        """


class ProfileHandler(Plugin):
    """Decides which profiles run for a request, and which of them counts."""

    def check(self, profiles: Sequence[str]) -> None:
        """Raise `ConfigError` if these profiles are not what the handler can work with."""

    def doubts(self, profiles: Sequence[str]) -> Sequence[str]:
        """What may not be meant, of profiles that `check` lets pass: told as warnings."""
        return ()

    @abstractmethod
    def pick(
        self,
        request: InferenceRequest,
        profiles: Sequence[str],
        results: Mapping[str, ProfileResult | None],
    ) -> Sequence[str]:
        """Names of the profiles to run next; none: it is done. `results` has those that ran, None
        for one that failed. A profile runs once: naming it again ends the request as a fault."""

    @abstractmethod
    def process(
        self, request: InferenceRequest, results: Mapping[str, ProfileResult | None]
    ) -> SchedulingResult:
        """The outcome; raises `Rejection` when the primary profile picked nothing."""


class Scheduler(Protocol):
    """Chooses among candidates."""

    def schedule(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> SchedulingResult:
        """Pick for `request` among `candidates` (never empty).

        Raises `Rejection` when every candidate was filtered out; anything else it raises is a
        fault, answered by the pool's failure mode.
        """
