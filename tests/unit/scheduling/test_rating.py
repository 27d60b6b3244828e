"""Scores that follow from metrics are kept until these change, and are the same as without that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import MetricsScorer, Scorer, SparseScores
from epp.framework.scheduling_results import ProfileResult
from epp.plugins.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.plugins.scorers.load_aware import LoadAwareParameters, LoadAwareScorer
from epp.plugins.scorers.queue import QueueScorer
from epp.plugins.scorers.running_requests_size import RunningRequestsSizeScorer
from epp.scheduling.overruns import MOST_IN_A_ROW
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.rating import MOST_LOADS, SCORER_BUDGET_SECONDS
from epp.testing import FakeContext, endpoint_of, request_of
from tests.fakes.plugins.scheduling import Answers, PicksBest, Remembers, Scores

SIZE = 5


def pool() -> tuple[Endpoint, ...]:
    return tuple(endpoint_of(f"e{number}") for number in range(1, SIZE + 1))


class FewestWaiting(MetricsScorer):
    """Counts how often it is asked."""

    type = "fewest-waiting"

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self.asked: list[tuple[int, ...]] = []
        self._act = act

    def score_metrics(self, metrics: Sequence[EndpointMetrics]) -> list[float]:
        waiting = tuple(each.waiting_queue_size for each in metrics)
        self.asked.append(waiting)
        self._act()
        return [1 / (1 + size) for size in waiting]


def scorers() -> list[tuple[Scorer, float]]:
    """Those of the default profile and their like, among one that asks for every request."""
    context = FakeContext()
    return [
        (QueueScorer(context), 2.0),
        (Scores(lambda endpoint: (endpoint.port + len(endpoint.name)) % 7 / 7, "own"), 0.3),
        (KvCacheUtilizationScorer(context), 2.0),
        (RunningRequestsSizeScorer(context), -1.1),
        (LoadAwareScorer(LoadAwareParameters(), context), 0.7),
    ]


def profile(
    *rated: tuple[Scorer, float],
    observer: Remembers | None = None,
    now: Callable[[], float] = lambda: 0.0,
) -> SchedulerProfile:
    return SchedulerProfile(
        "default", scorers=rated, picker=PicksBest(), observer=observer, now=now
    )


def said(result: ProfileResult) -> list[tuple[str, list[float]]]:
    return [(each.name, list(each.scores)) for each in result.scorers]


metrics = st.builds(
    EndpointMetrics,
    waiting_queue_size=st.integers(0, 3) | st.integers(0, 500),
    running_requests_size=st.integers(0, 3),
    kv_cache_usage=st.sampled_from([0.0, 0.25, 0.9]) | st.floats(-0.5, 1.5),
)
scrapes = st.tuples(st.integers(0, SIZE - 1), metrics)
subsets = st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=SIZE, unique=True)


@given(events=st.lists(scrapes | subsets, max_size=30))
def test_kept_scores_are_those_that_would_be_computed(
    events: list[tuple[int, EndpointMetrics] | list[int]],
) -> None:
    endpoints = pool()
    keeping = profile(*scorers())

    for event in events:
        if isinstance(event, tuple):
            endpoints[event[0]].state.metrics = event[1]
            continue
        for candidates in ([endpoints[index] for index in event], endpoints):
            result = keeping.run(request_of(), candidates)
            anew = profile(*scorers()).run(request_of(), candidates)
            assert result.totals == anew.totals
            assert said(result) == said(anew)
            assert result.endpoints == anew.endpoints


def test_metrics_are_scored_once_until_one_of_them_is_replaced() -> None:
    endpoints, scorer, observer = pool(), FewestWaiting(), Remembers()
    keeping = profile((scorer, 1.0), observer=observer)

    for waiting in (0, 7):
        endpoints[2].state.metrics = EndpointMetrics(waiting_queue_size=waiting)
        results = [keeping.run(request_of(), endpoints) for _ in range(3)]
        assert [list(each.totals) for each in results] == [[1, 1, 1 / (1 + waiting), 1, 1]] * 3

    assert scorer.asked == [(0, 0, 0, 0, 0), (0, 0, 7, 0, 0)]
    assert [point for point, *_ in observer.durations].count("Scorer") == 2


def test_scores_that_are_kept_are_told_from_those_that_were_asked_for() -> None:
    ticks = iter(range(100))
    keeping = profile((FewestWaiting(), 1.0), now=lambda: float(next(ticks)))

    [[asked], [kept]] = [keeping.run(request_of(), pool()).scorers for _ in range(2)]

    assert (asked.started_at, asked.seconds) == (1.0, 1.0)
    assert (kept.started_at, kept.seconds) == (None, 0.0)
    assert kept.scores == asked.scores


class FewestWaitingPerModel(FewestWaiting):
    """Looks at the request after all."""

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> Sequence[float]:
        return (
            [0.5] * len(endpoints)
            if request.incoming_model == "large"
            else super().score(request, endpoints)
        )


def test_a_score_of_its_own_is_asked_for_with_each_request() -> None:
    endpoints, scorer = pool(), FewestWaitingPerModel()
    scoring = profile((scorer, 1.0))

    totals = [
        scoring.run(request_of(model=model), endpoints).totals
        for model in ("small", "large", "small")
    ]

    assert [list(each) for each in totals] == [[1.0] * SIZE, [0.5] * SIZE, [1.0] * SIZE]
    assert len(scorer.asked) == 2


def test_other_candidates_are_scored_anew() -> None:
    endpoints, scorer = pool(), FewestWaiting()
    endpoints[0].state.metrics = EndpointMetrics(waiting_queue_size=1)
    keeping = profile((scorer, 1.0))

    totals = [keeping.run(request_of(), endpoints[:count]).totals for count in (2, 1, 2)]

    assert totals == [[0.5, 1.0], [0.5], [0.5, 1.0]]


def test_loads_are_told_as_they_were_whoever_scores() -> None:
    endpoints = pool()
    for scorer in (FewestWaiting(), Scores(lambda _: 1.0)):
        rating = profile((scorer, 1.0))

        results = []
        for waiting in (3, 8):
            endpoints[1].state.metrics = EndpointMetrics(waiting_queue_size=waiting)
            results.append(rating.run(request_of(), endpoints))

        assert [[each.waiting_queue_size for each in result.loads] for result in results] == [
            [0, 3, 0, 0, 0],
            [0, 8, 0, 0, 0],
        ]


@pytest.mark.parametrize("scorer", [FewestWaiting(), Scores(lambda _: 1.0)], ids=["kept", "asked"])
def test_loads_of_many_candidates_are_not_kept(scorer: Scorer) -> None:
    many = tuple(endpoint_of(f"e{number}") for number in range(MOST_LOADS + 1))
    rating = profile((scorer, 1.0))

    sizes = [
        len(rating.run(request_of(), many[:count]).loads)
        for count in (MOST_LOADS, MOST_LOADS + 1, MOST_LOADS)
    ]

    assert sizes == [MOST_LOADS, 0, MOST_LOADS]


@given(
    others=st.dictionaries(st.integers(0, SIZE - 1), st.floats() | st.integers(-1, 2)),
    before=st.floats(0, 1),
    weight=st.floats(-10, 10),
)
def test_sparse_scores_count_like_any_others(
    others: dict[int, float], before: float, weight: float
) -> None:
    dense = [others.get(place, 0.0) for place in range(SIZE)]
    first = (Scores(lambda _: before, "first"), 0.3)

    for rated in ([], [first]):
        sparse_result, dense_result = (
            profile(*rated, (Answers(scores), weight), first).run(request_of(), pool())
            for scores in (SparseScores(SIZE, others), dense)
        )
        assert sparse_result.totals == dense_result.totals
        assert said(sparse_result) == said(dense_result)


@pytest.mark.parametrize("count", [SIZE - 1, SIZE + 1])
def test_sparse_scores_must_be_as_many_as_endpoints(count: int) -> None:
    observer = Remembers()

    result = profile((Answers(SparseScores(count, {0: 1.0})), 1.0), observer=observer).run(
        request_of(), pool()
    )

    assert result.totals == [0.0] * SIZE
    assert observer.errors == {("Scorer", "answers", "answers"): 1}


def test_a_picker_that_changes_totals_changes_those_of_its_request_only() -> None:
    class Spoils(PicksBest):
        def pick(self, *arguments: object) -> list[Endpoint]:
            _, endpoints, totals = arguments
            assert isinstance(totals, list)
            assert isinstance(endpoints, tuple)
            totals[0] += 100.0
            return [endpoints[0]]

    keeping = SchedulerProfile("default", scorers=[(FewestWaiting(), 1.0)], picker=Spoils())

    results = [keeping.run(request_of(), pool()) for _ in range(2)]

    assert [each.totals[0] for each in results] == [101.0, 101.0]


def test_a_scorer_of_metrics_that_fails_is_asked_again() -> None:
    faults = iter([ValueError("bug"), None])

    def act() -> None:
        fault = next(faults)
        if fault is not None:
            raise fault

    observer = Remembers()
    keeping = profile((FewestWaiting(act), 1.0), observer=observer)
    endpoints = pool()

    results = [keeping.run(request_of(), endpoints) for _ in range(3)]

    assert [len(each.scorers) for each in results] == [0, 1, 1]
    assert observer.errors.total() == 1


def test_a_scorer_of_metrics_that_holds_up_everybody_is_switched_off() -> None:
    time = [0.0]

    def act() -> None:
        time[0] += 2 * SCORER_BUDGET_SECONDS

    scorer, endpoints = FewestWaiting(act), pool()
    keeping = profile((scorer, 1.0), now=lambda: time[0])

    for waiting in range(MOST_IN_A_ROW + 2):
        endpoints[0].state.metrics = EndpointMetrics(waiting_queue_size=waiting)
        keeping.run(request_of(), endpoints)

    assert len(scorer.asked) == MOST_IN_A_ROW
    assert keeping.run(request_of(), endpoints).totals == [0.0] * SIZE


def test_without_a_profile_around_it_it_is_a_scorer_like_any_other() -> None:
    endpoints = pool()
    endpoints[1].state.metrics = EndpointMetrics(waiting_queue_size=4)

    assert FewestWaiting().score(request_of(), endpoints[:2]) == [1.0, 0.2]
