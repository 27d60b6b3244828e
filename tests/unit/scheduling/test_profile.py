"""One profile: what its plugins may do, and what their failures cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from epp.framework.endpoint import Endpoint
from epp.framework.errors import ConfigError, ErrorCode, Rejection
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Filter, Scorer
from epp.scheduling.overruns import MOST_IN_A_ROW
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.rating import SCORER_BUDGET_SECONDS
from epp.support.plugin_faults import PluginFault
from epp.testing import endpoint_of, request_of
from tests.fakes.clock import Clock
from tests.fakes.plugins.scheduling import Answers, Keeps, PicksBest, Remembers, Score, Scores

POOL = [endpoint_of(f"e{number}") for number in range(1, 5)]
E1, E2, E3, E4 = POOL
STRANGER = endpoint_of("e9")


def by_name(*scores: float) -> Score:
    """Scores of e1, e2 and so on."""
    return lambda endpoint: scores[int(endpoint.pod_name[1:]) - 1]


def profile(
    *scorers: tuple[Scorer, float],
    filters: tuple[Filter, ...] = (),
    observer: Remembers | None = None,
) -> SchedulerProfile:
    return SchedulerProfile(
        "default", filters=filters, scorers=scorers, picker=PicksBest(), observer=observer
    )


any_score = st.floats() | st.integers(-3, 3)
weights = st.floats(-1e6, 1e6)


@given(
    rows=st.lists(st.tuples(weights, st.tuples(*[any_score] * 4)), max_size=4),
    order=st.permutations(POOL),
)
def test_totals_are_weighted_sums_of_clamped_scores(
    rows: list[tuple[float, tuple[float, ...]]], order: list[Endpoint]
) -> None:
    scorers = [(Scores(by_name(*scores)), weight) for weight, scores in rows]

    result = profile(*scorers).run(request_of(), order)

    for index, endpoint in enumerate(order):
        expected = 0.0
        for weight, scores in rows:
            score = by_name(*scores)(endpoint)
            expected += weight * (0.0 if math.isnan(score) else min(1.0, max(0.0, score)))
        assert result.totals[index] == expected
    assert result.endpoints[0] in order
    best = result.totals[order.index(result.endpoints[0])]
    assert best == max(result.totals)


@given(
    scores=st.permutations([0.1, 0.4, 0.6, 0.9]),
    order=st.permutations(POOL),
)
def test_the_order_of_candidates_changes_nothing(
    scores: list[float], order: list[Endpoint]
) -> None:
    scorers = [(Scores(by_name(*scores)), 2.0), (Scores(by_name(1, 0, 1, 0)), 0.01)]

    straight = profile(*scorers).run(request_of(), POOL)
    permuted = profile(*scorers).run(request_of(), order)

    assert permuted.endpoints == straight.endpoints
    assert dict(zip(order, permuted.totals, strict=True)) == dict(
        zip(POOL, straight.totals, strict=True)
    )


def test_the_result_tells_what_each_plugin_said() -> None:
    kept = (E2, E3)
    result = profile(
        (Scores(by_name(0, 0.5, 7, 0), "a"), 2),
        (Scores(by_name(0, 1, math.nan, 0), "b"), 3),
        filters=(Keeps(lambda endpoint: endpoint in kept), Keeps(lambda _: True)),
    ).run(request_of(), POOL)

    assert result.endpoints == (E2,)
    assert result.candidates == kept
    assert result.totals == [4.0, 2.0]
    assert [(said.name, said.weight, said.scores) for said in result.scorers] == [
        ("a", 2.0, [0.5, 1.0]),
        ("b", 3.0, [1.0, 0.0]),
    ]
    assert [(said.name, said.before, said.after) for said in result.filters] == [
        ("keeps", POOL, kept),
        ("keeps", kept, kept),
    ]


def test_candidates_are_passed_on_as_they_are_without_filters() -> None:
    assert profile().run(request_of(), POOL).candidates is POOL


def test_filters_stop_where_nothing_is_left_and_the_request_is_saturated() -> None:
    never_asked = Answers(AssertionError("asked"))

    with pytest.raises(Rejection) as caught:
        profile(filters=(Keeps(lambda _: False), never_asked)).run(request_of(), POOL)

    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert caught.value.message == "no endpoints available for the given request"
    assert caught.value.drop_reason == "rejected-saturated"
    assert caught.value.retry_after == 1


@pytest.mark.parametrize(
    "wrong",
    [
        Scores(ValueError("bug")),
        Scores(Rejection(ErrorCode.BAD_REQUEST, "not a scorer's business")),
        Answers([1.0]),
        Answers([1.0] * 5),
        Answers(None),
        Answers(["high"] * 4),
        Answers([None] * 4),
    ],
    ids=["raises", "rejects", "too few", "too many", "none", "text", "nothings"],
)
def test_a_scorer_that_fails_costs_its_score_only(wrong: Scorer) -> None:
    observer = Remembers()
    scorers = [(Scores(by_name(0, 0.5, 0, 0), "good"), 2.0), (wrong, 100.0)]

    result = profile(*scorers, observer=observer).run(request_of(), POOL)

    assert result.endpoints == (E2,)
    assert result.totals == [0, 1.0, 0, 0]
    assert [said.name for said in result.scorers] == ["good"]
    assert observer.errors == {("Scorer", wrong.type, wrong.name): 1}


@pytest.mark.parametrize("answer", [[E1, STRANGER], [STRANGER], None, [None]])
def test_a_filter_that_returns_strangers_is_at_fault(answer: object) -> None:
    observer = Remembers()

    with pytest.raises((PluginFault, TypeError)):
        profile(filters=(Answers(answer),), observer=observer).run(request_of(), POOL)

    assert observer.errors == {("Filter", "answers", "answers"): 1}


@pytest.mark.parametrize("answer", [[], [STRANGER], [E1, STRANGER], None, [None]])
def test_a_picker_that_picks_no_candidate_is_at_fault(answer: object) -> None:
    observer = Remembers()
    faulty = SchedulerProfile("default", picker=Answers(answer), observer=observer)

    with pytest.raises((PluginFault, TypeError)):
        faulty.run(request_of(), POOL)

    assert observer.errors == {("Picker", "answers", "answers"): 1}


def test_a_picker_may_not_pick_what_was_filtered_out() -> None:
    faulty = SchedulerProfile(
        "default", filters=[Keeps(lambda endpoint: endpoint is E2)], picker=Answers([E1])
    )

    with pytest.raises(PluginFault, match="picker 'answers' picked what is no candidate"):
        faulty.run(request_of(), POOL)


def test_what_filters_and_pickers_raise_goes_through_and_is_counted() -> None:
    observer = Remembers()
    bug = ValueError("bug")

    with pytest.raises(ValueError, match="bug"):
        profile(filters=(Answers(bug),), observer=observer).run(request_of(), POOL)
    with pytest.raises(ValueError, match="bug"):
        SchedulerProfile("default", picker=Answers(bug), observer=observer).run(request_of(), POOL)

    assert set(observer.errors) == {
        ("Filter", "answers", "answers"),
        ("Picker", "answers", "answers"),
    }


def test_a_rejection_is_an_answer_and_no_failure() -> None:
    observer = Remembers()
    rejection = Rejection(ErrorCode.FORBIDDEN, "no")

    with pytest.raises(Rejection):
        profile(filters=(Answers(rejection),), observer=observer).run(request_of(), POOL)
    with pytest.raises(Rejection):
        SchedulerProfile("d", picker=Answers(rejection), observer=observer).run(request_of(), POOL)

    assert not observer.errors
    assert [duration[0] for duration in observer.durations] == ["Filter", "Picker"]


def test_every_call_is_measured() -> None:
    ticks = iter(range(100))
    observer = Remembers()
    measured = SchedulerProfile(
        "default",
        filters=[Keeps(lambda _: True)],
        scorers=[(Scores(by_name(1, 1, 1, 1), "a"), 1), (Scores(ValueError("bug"), "b"), 1)],
        picker=PicksBest(),
        observer=observer,
        now=lambda: 0.01 * next(ticks),
    )

    measured.run(request_of(), POOL)

    assert [(point, name, round(seconds, 6)) for point, _, name, seconds in observer.durations] == [
        ("Filter", "keeps", 0.01),
        ("Scorer", "a", 0.01),
        ("Scorer", "b", 0.01),
        ("Picker", "picks-best", 0.01),
    ]


def test_the_result_tells_when_each_plugin_was_called_and_how_long_it_took() -> None:
    clock = ScorersClock(0.0)
    measured = SchedulerProfile(
        "default",
        filters=[Keeps(lambda _: bool(clock.taking(0.25)(E1)))],
        scorers=[(Scores(clock.taking(2.0)), 1)],
        picker=Answers([E1]),
        now=clock,
    )

    result = measured.run(request_of(), [E1, E2])

    [kept], [scored] = result.filters, result.scorers
    assert (kept.started_at, kept.seconds) == (0.0, 0.5)
    assert (scored.started_at, scored.seconds) == (0.5, 4.0)
    assert (result.picker, result.picking_at) == ("answers", 4.5)
    assert (result.started_at, result.seconds) == (0.0, 4.5)


def test_the_author_of_a_scorer_that_fails_is_told_where_and_nothing_of_the_request() -> None:
    failing = profile((Scores(ValueError("a prompt"), "mine"), 1))

    with capture_logs() as lines:
        for _ in range(3):
            failing.run(request_of(), POOL)

    (warning,) = [line for line in lines if line["log_level"] == "warning"]
    assert (warning["event"], warning["plugin"]) == ("plugin failed", "mine")
    assert warning["extension_point"] == "Scorer"
    assert "in score\n" in warning["exception"]
    assert "a prompt" not in str(warning)


def test_a_scorer_that_leaves_endpoints_out_is_told_so() -> None:
    class TooFew(Scorer):
        type = "too-few"

        def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
            return [1.0]

    with capture_logs() as lines:
        profile((TooFew(), 1)).run(request_of(), POOL)

    assert lines[0]["problem"] == "1 scores for 4 endpoints"


def test_the_author_of_a_filter_that_fails_is_told_where() -> None:
    def fail(_: Endpoint) -> bool:
        raise KeyError("a prompt")

    with capture_logs() as lines, pytest.raises(KeyError):
        profile(filters=(Keeps(fail),)).run(request_of(), POOL)

    assert (lines[0]["extension_point"], lines[0]["error"]) == ("Filter", "KeyError")
    assert "in fail\n" in lines[0]["exception"]


class ScorersClock(Clock):
    """Time that a scorer lets pass."""

    def taking(self, seconds: float) -> Score:
        """A score that takes so long to find."""

        def score(endpoint: Endpoint) -> float:
            self.now += seconds
            return 1.0

        return score


def test_a_scorer_that_holds_up_everybody_is_switched_off() -> None:
    clock = ScorersClock()
    observer = Remembers()
    slow = Scores(clock.taking(SCORER_BUDGET_SECONDS * 2), "slow")
    quick = Scores(clock.taking(0.0), "quick")
    measured = SchedulerProfile(
        "default",
        scorers=[(slow, 1), (quick, 1)],
        picker=PicksBest(),
        observer=observer,
        now=clock,
    )

    results = [measured.run(request_of(), [E1]) for _ in range(MOST_IN_A_ROW + 3)]

    assert slow.calls == MOST_IN_A_ROW
    assert quick.calls == MOST_IN_A_ROW + 3
    assert observer.switched_off == [("scores", "slow")]
    assert [said.name for said in results[-1].scorers] == ["quick"]


def test_a_scorer_that_is_slow_now_and_then_stays() -> None:
    clock = ScorersClock()
    paces = iter(([SCORER_BUDGET_SECONDS * 2] * (MOST_IN_A_ROW - 1) + [0.0]) * 3)
    scorer = Scores(lambda endpoint: clock.taking(next(paces))(endpoint))
    measured = SchedulerProfile("default", scorers=[(scorer, 1)], picker=PicksBest(), now=clock)

    for _ in range(MOST_IN_A_ROW * 3):
        measured.run(request_of(), [E1])

    assert scorer.calls == MOST_IN_A_ROW * 3


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf])
def test_weights_are_numbers(weight: float) -> None:
    with pytest.raises(ConfigError, match=r"profile 'default': weight .* of scorer 'scores'"):
        profile((Scores(by_name(1)), weight))


def test_a_scorer_named_twice_counts_twice() -> None:
    scorer = Scores(by_name(1, 0, 0, 0))

    assert profile((scorer, 1), (scorer, 2)).run(request_of(), POOL).totals == [3, 0, 0, 0]


class KeepsTwice(Keeps):
    """Names every endpoint twice."""

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        return 2 * super().filter(request, endpoints)


def test_a_filter_that_names_endpoints_twice_keeps_them_once() -> None:
    twice = KeepsTwice(lambda endpoint: endpoint is not E1)

    assert profile(filters=(twice,)).run(request_of(), POOL).candidates == (E2, E3, E4)
