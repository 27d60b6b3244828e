"""Spreading of requests that nobody has a prefix of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epp.framework.data_types import PREFIX_MATCH, PrefixMatch
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.scorers.no_hit_lru import NoHitLruScorer
from epp.testing import built, endpoint_of, put, request_of

E1, E2, E3, E4 = POOL = tuple(endpoint_of(f"e{number}") for number in (1, 2, 3, 4))


def picked(*endpoints: Endpoint, prefill: Endpoint | None = None) -> SchedulingResult:
    profiles = {"default": ProfileResult(endpoints=endpoints)}
    if prefill is not None:
        profiles["prefill"] = ProfileResult(endpoints=(prefill,))
    return SchedulingResult(primary="default", profiles=profiles)


def use(scorer: NoHitLruScorer, *endpoints: Endpoint, prefill: Endpoint | None = None) -> None:
    request = request_of()
    scorer.score(request, POOL)
    scorer.pre_request(request, picked(*endpoints, prefill=prefill))


def scores(
    scorer: NoHitLruScorer,
    endpoints: Sequence[Endpoint] = POOL,
    request: InferenceRequest | None = None,
) -> list[float]:
    return scorer.score(request or request_of(), endpoints)


@pytest.mark.parametrize("case", ["G26"])
def test_never_used_endpoints_come_first_then_those_used_longest_ago(case: str) -> None:
    scorer = built(NoHitLruScorer)
    use(scorer, E2)
    use(scorer, E4)

    assert scores(scorer) == pytest.approx([1, 0.333333, 0.666667, 0], abs=1e-6)


def test_using_an_endpoint_again_makes_it_the_last() -> None:
    scorer = built(NoHitLruScorer)
    for endpoint in (*POOL, E1):
        use(scorer, endpoint)

    assert scores(scorer) == pytest.approx([0, 1, 2 / 3, 1 / 3])


def test_places_count_over_endpoints_that_are_no_candidates() -> None:
    scorer = built(NoHitLruScorer)
    for endpoint in (E3, E4, E1):
        use(scorer, endpoint)

    assert scores(scorer, [E1, E2]) == [0, 1]
    assert scores(scorer, [E1, E4]) == [0, 0]


def test_only_the_first_pick_and_the_prefill_endpoint_are_used() -> None:
    scorer = built(NoHitLruScorer)

    use(scorer, E1, E2, prefill=E3)

    assert scores(scorer) == pytest.approx([1 / 3, 1, 0, 2 / 3])


@pytest.mark.parametrize("count", [1, 4])
def test_any_match_makes_all_equal_and_uses_nobody(count: int) -> None:
    scorer, request = built(NoHitLruScorer), request_of()
    put(PREFIX_MATCH, request, {E2: PrefixMatch(1, 4, 64), E3: PrefixMatch(0, 4, 64)})

    assert scores(scorer, POOL[:4], request) == [0.5] * 4
    scorer.pre_request(request, picked(E1))

    assert scores(scorer) == pytest.approx([1, 2 / 3, 1 / 3, 0])


def test_a_single_candidate_gets_1() -> None:
    scorer = built(NoHitLruScorer)
    use(scorer, E1)

    assert scores(scorer, [E1]) == [1]


def test_a_request_that_was_not_scored_uses_nobody() -> None:
    scorer = built(NoHitLruScorer)

    scorer.pre_request(request_of(), picked(E1))

    assert scores(scorer) == pytest.approx([1, 2 / 3, 1 / 3, 0])


def test_a_removed_endpoint_takes_no_place_not_even_by_a_late_request() -> None:
    scorer, late = built(NoHitLruScorer), request_of()
    use(scorer, E1)
    use(scorer, E2)
    scores(scorer, POOL, late)

    scorer.endpoint_removed(E1)
    scorer.pre_request(late, picked(E1))

    assert scorer.dump_state() == {"used": ["default/e2-rank-0"]}
    assert scores(scorer, [E2, E3]) == [0, 1]


def test_an_endpoint_that_comes_back_is_used_again() -> None:
    scorer = built(NoHitLruScorer)
    scorer.endpoint_removed(E1)

    scorer.endpoint_added(E1)
    use(scorer, E1)

    assert scorer.dump_state() == {"used": ["default/e1-rank-0"]}


@pytest.mark.parametrize(("size", "kept"), [(2, 2), (0, 4), (-1, 4)])
def test_only_so_many_endpoints_are_remembered(size: int, kept: int) -> None:
    scorer = built(NoHitLruScorer, lru_size=size)

    for endpoint in POOL:
        use(scorer, endpoint)

    assert scorer.dump_state() == {
        "used": [f"default/{endpoint.name}" for endpoint in POOL[-kept:]]
    }


def test_distinct_prompts_one_after_another_spread_evenly() -> None:
    scorer = built(NoHitLruScorer)
    served: list[Endpoint] = []

    for _ in range(40):
        request = request_of()
        totals = scorer.score(request, POOL)
        served.append(POOL[totals.index(max(totals))])
        scorer.pre_request(request, picked(served[-1]))

    assert [served.count(endpoint) for endpoint in POOL] == [10, 10, 10, 10]
