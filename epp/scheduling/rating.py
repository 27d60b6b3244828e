"""What scorers say of candidates, weighted and summed up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import add
from typing import TYPE_CHECKING, TypeAlias

from epp.framework.scheduling import MetricsScorer, Scorer, SparseScores
from epp.framework.scheduling_results import ReportedLoad, ScorerResult
from epp.scheduling.overruns import Overruns
from epp.support.plugin_faults import PLUGIN_FAULTS, PluginFault

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint, EndpointMetrics
    from epp.framework.request import InferenceRequest
    from epp.scheduling.steps import Step

SCORER_BUDGET_SECONDS = 0.1
"""Longest a scorer may take: nothing else of the process runs meanwhile."""

MOST_LOADS = 64
"""Candidates whose loads are kept with the decision: of more it would take much room."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightedScorer:
    """A scorer of a profile, and how much its scores count."""

    step: Step[Scorer]
    weight: float
    by_metrics: MetricsScorer | None
    """The scorer, if it looks at metrics only."""

    @classmethod
    def of(cls, step: Step[Scorer], weight: float) -> WeightedScorer:
        """The scorer called at `step`."""
        return cls(step, weight, _by_metrics(step.plugin))


def _by_metrics(scorer: Scorer) -> MetricsScorer | None:
    # One with a `score` of its own may look at the request there.
    if isinstance(scorer, MetricsScorer) and type(scorer).score is MetricsScorer.score:
        return scorer
    return None


_Said: TypeAlias = tuple[ScorerResult, "list[float] | dict[int, float]"]
"""The scores of a scorer, and the same weighted: all of them, or by place those that are not 0."""


class Rating:
    """Asks the scorers of one profile; who asks for metrics only is asked when they change.

    Scores that follow from metrics alone are kept with these (decision 18). They are looked up by
    the metrics themselves, objects that are replaced whenever a page is read, so that it does not
    matter who replaces them, nor which candidates the filters left. With 100 endpoints that are
    scraped every 50 ms hardly two requests find the same, and what is lost is a few µs.
    """

    def __init__(
        self, scorers: Iterable[WeightedScorer], overruns: Overruns, now: Callable[[], float]
    ) -> None:
        self._scorers = tuple(scorers)
        self._overruns = overruns
        self._now = now
        self._metrics: tuple[EndpointMetrics, ...] = ()
        self._kept: dict[WeightedScorer, _Said] = {}
        """What was said of `_metrics`."""
        self._keeps = any(each.by_metrics is not None for each in self._scorers)
        self._loads: tuple[ReportedLoad, ...] = ()

    @property
    def scorers(self) -> Sequence[WeightedScorer]:
        """Those that are asked: none that was switched off."""
        return self._scorers

    def of(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> tuple[list[float], list[ScorerResult], Sequence[ReportedLoad]]:
        """Totals in the order of `candidates`, the scores they are made of, and what was seen of
        the load, which is empty where there are too many.

        A scorer that fails costs its score only.
        """
        self._look_at(candidates)
        totals: list[float] = []
        results = []
        for scorer in self._scorers:
            said = self._kept.get(scorer) or self._ask(scorer, request, candidates)
            if said is None:
                continue
            result, weighted = said
            results.append(result)
            if isinstance(weighted, list):
                totals = list(map(add, totals, weighted)) if totals else weighted.copy()
                continue
            totals = totals or [0.0] * len(candidates)
            for place, term in weighted.items():
                totals[place] += term
        return totals or [0.0] * len(candidates), results, self._loads

    def _look_at(self, candidates: Sequence[Endpoint]) -> None:
        if not self._keeps and len(candidates) > MOST_LOADS:
            self._metrics, self._loads = (), ()
            return
        # `state.metrics`, since the property `metrics` makes it 5.7 µs for 100 endpoints, not 1.9.
        metrics = tuple([endpoint.state.metrics for endpoint in candidates])
        if metrics != self._metrics:
            self._metrics = metrics
            self._kept.clear()
            self._loads = _loads_of(metrics)

    def _ask(
        self, scorer: WeightedScorer, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> _Said | None:
        step, weight = scorer.step, scorer.weight
        plugin, by_metrics = step.plugin, scorer.by_metrics
        started = self._now()
        try:
            if by_metrics is None:
                given = plugin.score(request, candidates)
            else:
                given = by_metrics.score_metrics(self._metrics)
            scores = _clamped(given, len(candidates))
        except PLUGIN_FAULTS as error:  # its score is missing (decision 1)
            step.failed(error, request)
            return None
        finally:
            seconds = step.ended(request, started, self._now())
            self._watch(plugin, seconds, request)
        weighted = _weighted(weight, scores)
        kind = plugin.type
        if by_metrics is None:
            return ScorerResult(step.name, weight, scores, started, seconds, kind), weighted
        # A tuple, since it is shown with every request until the metrics change.
        kept = tuple(scores)
        self._kept[scorer] = ScorerResult(step.name, weight, kept, type=kind), weighted
        return ScorerResult(step.name, weight, kept, started, seconds, kind), weighted

    def _watch(self, plugin: Scorer, seconds: float, request: InferenceRequest) -> None:
        self._overruns.took(plugin, seconds, SCORER_BUDGET_SECONDS, request)
        if seconds > SCORER_BUDGET_SECONDS and self._overruns.is_off(plugin):
            self._scorers = tuple(each for each in self._scorers if each.step.plugin is not plugin)


def _loads_of(metrics: Sequence[EndpointMetrics]) -> tuple[ReportedLoad, ...]:
    if len(metrics) > MOST_LOADS:
        return ()
    # By position, in the order of its fields: 0.07 µs each, shared by requests until they change.
    return tuple(
        [
            ReportedLoad(
                each.waiting_queue_size,
                each.running_requests_size,
                each.kv_cache_usage,
                each.updated_at,
            )
            for each in metrics
        ]
    )


def _clamped(given: Iterable[float], count: int) -> list[float]:
    """Scores of which each is 0 to 1; raises if they are not so many numbers."""
    if type(given) is SparseScores and _fits(given, count):
        return given
    scores = [
        score if 0.0 <= score <= 1.0 else _nearest(score)
        for score in map(float, islice(given, count + 1))
    ]
    if len(scores) != count:
        raise PluginFault(f"{len(scores)} scores for {count} endpoints")
    return scores


def _fits(scores: SparseScores, count: int) -> bool:
    return len(scores) == count and all(0.0 <= each <= 1.0 for each in scores.others.values())


def _weighted(weight: float, scores: list[float]) -> list[float] | dict[int, float]:
    if type(scores) is SparseScores:
        return {place: weight * score for place, score in scores.others.items()}
    return [weight * score for score in scores]


def _nearest(score: float) -> float:
    """What counts of a score out of bounds; NaN says that there is none."""
    return 1.0 if score > 1.0 else 0.0
