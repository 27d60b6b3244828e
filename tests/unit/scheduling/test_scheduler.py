"""The scheduling cycle, and which errors come out of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data_types import PREFIX_MATCH, PrefixMatch
from epp.framework.endpoint import Endpoint
from epp.framework.errors import ConfigError, DropReason, ErrorCode, Rejection
from epp.framework.request import InferenceRequest
from epp.plugins.pickers.max_score import MaxScorePicker
from epp.plugins.profile_handlers.single import SingleProfileHandler
from epp.plugins.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.plugins.scorers.prefix_cache import PrefixCacheScorer
from epp.plugins.scorers.queue import QueueScorer
from epp.scheduling.freshness import fresh_among
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.scheduler import ProfileScheduler
from epp.support.plugin_faults import PluginFault
from epp.testing import built, endpoint_of, put, request_of
from tests.fakes.plugins.scheduling import Answers, Keeps, PicksBest, Remembers, RunsInOrder, Scores

E1, E2, E3 = (endpoint_of(f"e{number}") for number in range(1, 4))


def picks(name: str, endpoint: Endpoint) -> SchedulerProfile:
    """A profile that picks one endpoint."""
    return SchedulerProfile(name, filters=[Keeps(lambda it: it is endpoint)], picker=PicksBest())


def drops_all(name: str) -> SchedulerProfile:
    return SchedulerProfile(name, filters=[Keeps(lambda _: False)], picker=PicksBest())


def raises(name: str, error: Exception) -> SchedulerProfile:
    return SchedulerProfile(name, filters=[Answers(error)], picker=PicksBest())


def stale(name: str) -> Endpoint:
    endpoint = endpoint_of(name, updated_at=None)
    endpoint.state.is_stale = True
    return endpoint


def test_profiles_run_in_the_rounds_that_the_handler_names() -> None:
    handler = RunsInOrder(["a"], ["b", "c"])
    scheduler = ProfileScheduler([picks("c", E3), picks("a", E1), picks("b", E2)], handler)

    result = scheduler.schedule(request_of(), [E1, E2, E3])

    assert list(result.profiles) == ["a", "b", "c"]
    assert result.endpoints == (E1,)
    assert result.profiles["c"].endpoints == (E3,)


def test_a_profile_that_finds_nothing_leaves_the_others_alone() -> None:
    handler = RunsInOrder(["a"], ["b"])
    scheduler = ProfileScheduler([drops_all("a"), picks("b", E2)], handler)

    result = scheduler.schedule(request_of(), [E1, E2])

    assert result.primary == "b"
    assert "a" not in result.profiles


def test_the_reason_of_the_profile_survives_when_nothing_is_found() -> None:
    handler = RunsInOrder(["a"], outcome=Rejection(ErrorCode.INTERNAL, "failed to run a"))
    rejection = Rejection(ErrorCode.PRECONDITION_FAILED, "why", retry_after=7)
    scheduler = ProfileScheduler([raises("a", rejection)], handler)

    with pytest.raises(Rejection) as caught:
        scheduler.schedule(request_of(), [E1])

    assert caught.value is rejection


def test_a_handler_that_knows_better_has_the_last_word() -> None:
    outcome = Rejection(
        ErrorCode.SERVICE_UNAVAILABLE, "no prefill", drop_reason=DropReason.NO_ENDPOINTS
    )
    scheduler = ProfileScheduler([drops_all("a")], RunsInOrder(["a"], outcome=outcome))

    with pytest.raises(Rejection) as caught:
        scheduler.schedule(request_of(), [E1])

    assert caught.value is outcome


def test_a_handler_may_reject_although_everything_was_found() -> None:
    outcome = Rejection(ErrorCode.FORBIDDEN, "no")
    scheduler = ProfileScheduler([picks("a", E1)], RunsInOrder(["a"], outcome=outcome))

    with pytest.raises(Rejection) as caught:
        scheduler.schedule(request_of(), [E1])

    assert caught.value is outcome


def test_everything_filtered_out_is_saturation() -> None:
    scheduler = ProfileScheduler([drops_all("default")], built(SingleProfileHandler))

    with pytest.raises(Rejection) as caught:
        scheduler.schedule(request_of(), [E1, E2])

    assert caught.value.http_status == 429
    assert caught.value.drop_reason == "rejected-saturated"


def test_no_profile_at_all_is_a_429() -> None:
    scheduler = ProfileScheduler([picks("a", E1)], RunsInOrder())
    message = "failed to run any scheduler profile for request r1"

    with pytest.raises(Rejection, match=re.escape(message)) as caught:
        scheduler.schedule(request_of(), [E1])

    assert caught.value.http_status == 429


def test_a_fault_of_a_profile_goes_through_at_once() -> None:
    handler = RunsInOrder(["a"], ["b"])
    scheduler = ProfileScheduler([raises("a", ValueError("bug")), picks("b", E1)], handler)

    with pytest.raises(ValueError, match="bug"):
        scheduler.schedule(request_of(), [E1])


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        ([["ghost"]], "named an unknown profile"),
        ([["a"], ["a"]], "named the profile 'a' again"),
        ([["a", "a"]], "named the profile 'a' again"),
    ],
)
def test_a_handler_that_names_what_can_not_run_is_at_fault(
    rounds: list[list[str]], message: str
) -> None:
    observer = Remembers()
    scheduler = ProfileScheduler([picks("a", E1)], RunsInOrder(*rounds), observer=observer)

    with pytest.raises(PluginFault, match=message):
        scheduler.schedule(request_of(), [E1])

    assert observer.errors == {("ProfilePicker", "runs-in-order", "runs-in-order"): 1}


def test_a_primary_profile_without_a_pick_is_a_fault() -> None:
    handler = RunsInOrder(["a"], ["b"], outcome="a")
    scheduler = ProfileScheduler([drops_all("a"), picks("b", E1)], handler)

    with pytest.raises(PluginFault, match="made a profile that picked nothing the primary"):
        scheduler.schedule(request_of(), [E1])


def test_calls_of_the_handler_are_measured_and_its_faults_counted() -> None:
    observer = Remembers()
    handler = RunsInOrder(["a"], outcome=ValueError("bug"))
    scheduler = ProfileScheduler([picks("a", E1)], handler, observer=observer)

    with pytest.raises(ValueError, match="bug"):
        scheduler.schedule(request_of(), [E1])

    points = [point for point, *_ in observer.durations]
    assert points == ["ProfilePicker", "ProfilePicker", "ProcessProfilesResults"]
    assert observer.errors == {("ProcessProfilesResults", "runs-in-order", "runs-in-order"): 1}


def test_profile_names_are_told_apart() -> None:
    with pytest.raises(ConfigError, match="profile names must differ, got a, a"):
        ProfileScheduler([picks("a", E1), picks("a", E2)], RunsInOrder())


def test_the_handler_checks_the_profiles_it_gets() -> None:
    with pytest.raises(ConfigError, match="exactly one profile, got 2: a, b"):
        ProfileScheduler([picks("a", E1), picks("b", E2)], built(SingleProfileHandler))


def test_fresh_candidates_are_passed_on_untouched() -> None:
    candidates = [E1, E2]

    assert fresh_among(candidates) is candidates


@given(st.lists(st.booleans(), max_size=6))
def test_stale_candidates_leave_while_a_fresh_one_exists(staleness: list[bool]) -> None:
    candidates = [stale("e1") if is_stale else endpoint_of("e2") for is_stale in staleness]

    believed = fresh_among(candidates)

    fresh = [endpoint for endpoint in candidates if not endpoint.is_stale]
    assert list(believed) == (fresh or candidates)


def default_scheduler() -> ProfileScheduler:
    """The profile that a configuration without one has."""
    scorers = [
        (built(QueueScorer), 2.0),
        (built(KvCacheUtilizationScorer), 2.0),
        (built(PrefixCacheScorer), 3.0),
    ]
    profile = SchedulerProfile("default", scorers=scorers, picker=built(MaxScorePicker))
    return ProfileScheduler([profile], built(SingleProfileHandler))


def request_matching(*matches: tuple[Endpoint, int]) -> InferenceRequest:
    """A request of eight blocks, of which endpoints hold so many."""
    request = request_of()
    put(PREFIX_MATCH, request, {endpoint: PrefixMatch(held, 8, 64) for endpoint, held in matches})
    return request


def never_scraped_and_others() -> tuple[list[Endpoint], InferenceRequest]:
    candidates = [
        endpoint_of("e1", updated_at=None),
        endpoint_of("e2", waiting=1, kv=0.1),
        endpoint_of("e3", waiting=8, kv=0.8),
    ]
    return candidates, request_matching((candidates[1], 0), (candidates[2], 8))


@pytest.mark.parametrize("case", ["G27"])
def test_a_never_scraped_endpoint_that_counts_as_fresh_looks_idle(case: str) -> None:
    candidates, request = never_scraped_and_others()

    result = default_scheduler().schedule(request, candidates)

    profile = result.profiles["default"]
    assert profile.scorers[0].scores == pytest.approx([1, 0.875, 0])
    assert profile.totals == pytest.approx([4, 3.55, 3.4])
    assert result.endpoints == (candidates[0],)


@pytest.mark.parametrize("case", ["G27"])
def test_a_never_scraped_endpoint_is_stale_and_gets_nothing(case: str) -> None:
    """Decision 20 over the reference, where it attracts all traffic (scheduling §16.4)."""
    candidates, request = never_scraped_and_others()
    candidates[0].state.is_stale = True

    result = default_scheduler().schedule(request, candidates)

    assert result.endpoints == (candidates[1],)
    assert list(result.profiles["default"].candidates) == candidates[1:]


@pytest.mark.parametrize("case", ["G28"])
def test_totals_of_the_default_profile(case: str) -> None:
    candidates = [endpoint_of("e1", kv=0.5), endpoint_of("e2", waiting=4, kv=0.2)]
    request = request_matching((candidates[0], 2), (candidates[1], 8))

    result = default_scheduler().schedule(request, candidates)

    assert result.profiles["default"].totals == pytest.approx([3.75, 4.6])
    assert result.endpoints == (candidates[1],)


def test_idle_endpoints_share_evenly() -> None:
    scheduler = default_scheduler()
    candidates = [E1, E2, E3]

    picked = [scheduler.schedule(request_of(), candidates).endpoints[0] for _ in range(30)]

    assert [picked.count(endpoint) for endpoint in candidates] == [10, 10, 10]


def test_a_scorer_of_your_own_is_all_it_takes() -> None:
    scorer = Scores(lambda endpoint: 1.0 if endpoint is E2 else 0.0)
    profile = SchedulerProfile("mine", scorers=[(scorer, 1.0)], picker=PicksBest())

    result = ProfileScheduler([profile], SingleProfileHandler()).schedule(request_of(), [E1, E2])

    assert result.endpoints == (E2,)
