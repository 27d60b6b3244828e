from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

import msgspec
import pytest

from epp.admin.candidate_viewing import MOST_ENDPOINTS
from epp.admin.decision_view import DecisionPart
from epp.admin.decision_viewing import NOTHING_LEFT, summary_of, view_decision
from epp.app.request_path import RequestPathSettings
from epp.datastore.inference_pool import FailureMode
from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.errors import ErrorCode, PlainRejection, Rejection
from epp.framework.request import InferenceRequest
from epp.framework.request_control import PreRequest
from epp.framework.scheduling import Filter
from epp.framework.scheduling_results import SchedulingResult
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.incoming import IncomingRequest
from epp.request_control.outliers import OutlierSettings
from epp.scheduling.rating import MOST_LOADS
from epp.testing import request_of
from tests.fakes.pickers.decided import Decided, incoming
from tests.fakes.plugins.hooks import KeepsFirst

ONE, TWO, THREE = "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"
LABELLED = """
plugins:
- {type: label-selector-filter, name: gold, parameters: {matchLabels: {tier: gold}}}
- {type: queue-scorer}
- {type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: gold}
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: max-score-picker}
"""
GOLD = {ONE: {"tier": "gold"}, TWO: {"tier": "gold"}}


def viewed(picker: Decided) -> DecisionPart:
    """The last decision, as it is read again from its JSON."""
    [decision] = picker.log.last(1)
    part = view_decision(decision, time.monotonic())
    return msgspec.json.decode(msgspec.json.encode(part), type=DecisionPart)


def test_a_decision_is_told_from_candidates_to_pick() -> None:
    picker = Decided(config=LABELLED, labels=GOLD)
    picker.endpoint(ONE).state.metrics = EndpointMetrics(waiting_queue_size=4)
    picker.endpoint(TWO).state.metrics = EndpointMetrics(waiting_queue_size=1)
    picker.decide(incoming(headers={"x-request-id": "a"}))

    part = viewed(picker)

    assert (part.request_id, part.outcome, part.endpoints) == ("a", "picked", [TWO, ONE])
    assert part.reason.startswith("best of 2 endpoints (1 filtered out: gold 1): 2.00 = queue")
    assert (part.pool_size, part.left_out) == (3, [])
    [profile] = part.profiles
    assert (profile.name, profile.is_primary, profile.candidates) == ("default", True, 2)
    [gold] = profile.filters
    assert (gold.plugin, gold.before, gold.after, gold.removed) == ("gold", 3, 2, [THREE])
    [scorer] = profile.scorers
    assert (scorer.plugin, scorer.weight) == ("queue-scorer", 2.0)
    best, other = profile.endpoints
    assert (best.address, best.total, best.scores, best.weighted, best.picked) == (
        TWO,
        2.0,
        [1.0],
        [2.0],
        1,
    )
    assert (other.address, other.total, other.picked) == (ONE, 0.0, 2)


def test_what_was_reported_when_it_was_decided_is_told_whatever_came_later() -> None:
    picker = Decided(config=LABELLED, labels=GOLD)
    picker.endpoint(ONE).state.metrics = EndpointMetrics(
        waiting_queue_size=4,
        running_requests_size=7,
        kv_cache_usage=0.25,
        updated_at=time.monotonic() - 3,
    )
    picker.decide()
    picker.endpoint(ONE).state.metrics = EndpointMetrics(waiting_queue_size=99, updated_at=1.0)

    two, one = viewed(picker).profiles[0].endpoints

    assert (one.address, two.address) == (ONE, TWO)
    assert one.load is not None
    assert (one.load.waiting, one.load.running, one.load.kv_cache_usage) == (4, 7, 0.25)
    assert one.load.age_seconds is not None
    assert 3 <= one.load.age_seconds < 60
    assert (two.load, one.prefix, two.prefix) == (None, None, None)


async def test_a_dry_run_tells_the_load_of_pools_of_which_it_is_not_kept() -> None:
    addresses = [f"10.0.{number}.1:8000" for number in range(MOST_LOADS + 1)]
    picker = Decided(addresses)
    for address in addresses:
        picker.endpoint(address).state.metrics = EndpointMetrics(
            waiting_queue_size=4, updated_at=1.0
        )
    picker.decide()

    kept = viewed(picker).profiles[0].endpoints
    dry_run = view_decision(await picker.rehearse(), time.monotonic()).profiles[0].endpoints

    assert [each.load for each in kept] == [None] * len(kept)
    assert [each.load.waiting for each in dry_run if each.load] == [4] * len(dry_run)


async def test_a_dry_run_tells_how_much_of_the_prompt_is_cached() -> None:
    picker = Decided(config="")
    [endpoint, *_] = picker.decide().endpoints

    decision = await picker.rehearse()
    [profile] = view_decision(decision, time.monotonic()).profiles

    told = {each.address: each.prefix for each in profile.endpoints}
    cached = told.pop(endpoint.address)
    assert cached is not None
    assert cached.matched_blocks == cached.prompt_blocks > 0
    assert [each.matched_blocks for each in told.values() if each] == [0, 0]


def test_times_are_told_as_far_as_they_were_kept() -> None:
    picker = Decided()
    before = time.time()
    picker.decide()

    part = viewed(picker)

    assert [phase.name for phase in part.phases] == ["body", "preparation", "scheduling"]
    assert part.seconds is not None
    whole = sum(phase.seconds for phase in part.phases[1:])
    assert abs(part.seconds - whole) < 1e-6
    decided_at = datetime.fromisoformat(part.decided_at).timestamp()
    assert before - 1 < decided_at < time.time() + 1


def steps(part: DecisionPart) -> list[tuple[str, str, str]]:
    return [(each.extension_point, each.plugin, each.profile) for each in part.steps]


def test_a_decision_that_was_made_is_told_with_the_time_of_each_step() -> None:
    picker = Decided(config=LABELLED, labels=GOLD)
    picker.decide()

    part = viewed(picker)

    assert steps(part) == [
        ("RequestParsing", "openai-parser", ""),
        ("ProfilePicker", "single-profile-handler", ""),
        ("Filter", "gold", "default"),
        ("Scorer", "queue-scorer", "default"),
        ("Picker", "max-score-picker", "default"),
        ("ProfilePicker", "single-profile-handler", ""),
        ("ProcessProfilesResults", "single-profile-handler", ""),
    ]
    assert part.seconds is not None
    assert 0 < sum(each.seconds for each in part.steps) <= part.seconds
    assert not any(each.failed for each in part.steps)


def test_a_scorer_whose_scores_were_kept_is_told_to_be_so_and_took_no_step() -> None:
    picker = Decided(config=LABELLED, labels=GOLD)
    for _ in range(2):
        picker.decide()

    part = viewed(picker)

    [scorer] = part.profiles[0].scorers
    assert scorer.is_kept
    assert "Scorer" not in [each.extension_point for each in part.steps]


def test_whom_ejections_and_screeners_left_out_is_told() -> None:
    config = "plugins: [{type: keeps-first}, {type: queue-scorer}]"
    settings = RequestPathSettings(outliers=OutlierSettings(consecutive_errors=1))
    picker = Decided(config=config, own_plugins=[KeepsFirst], settings=settings)
    picker.path.outliers.ended(picker.endpoint(ONE), 500)
    picker.decide()

    part = viewed(picker)

    assert [(each.by, each.plugin, each.endpoints) for each in part.left_out] == [
        ("ejection", "", [ONE]),
        ("screener", "keeps-first", [THREE]),
    ]


def rejected(picker: Decided, request: IncomingRequest) -> DecisionPart:
    """A rejection as the gateway's room notes it."""
    with pytest.raises(Rejection) as rejection:
        picker.decide(request)
    assert request.request is not None
    picker.log.rejected(request.request, request.received_at, rejection.value)
    return viewed(picker)


def test_a_rejection_is_told_with_what_the_filters_removed_and_with_every_step() -> None:
    part = rejected(Decided(config=LABELLED), incoming())

    assert (part.outcome, part.pool_size, part.left_out) == ("rejected", 3, [])
    [profile] = part.profiles
    assert (profile.reason, profile.filters[0].removed) == (NOTHING_LEFT, [ONE, TWO, THREE])
    assert steps(part) == [
        ("RequestParsing", "openai-parser", ""),
        ("ProfilePicker", "single-profile-handler", ""),
        ("Filter", "gold", "default"),
        ("ProfilePicker", "single-profile-handler", ""),
        ("ProcessProfilesResults", "single-profile-handler", ""),
    ]
    assert [phase.name for phase in part.phases] == ["body", "preparation", "scheduling"]


def test_a_rejection_of_what_was_scheduled_is_told_with_its_scores() -> None:
    unavailable = incoming(headers={"prefer": "if-available"})

    part = rejected(Decided(config=LABELLED, labels=GOLD), unavailable)

    assert part.rejection is not None
    assert (part.outcome, part.rejection.status, part.endpoints) == ("rejected", 412, [])
    assert [each.address for each in part.profiles[0].endpoints] == [ONE, TWO]


def test_a_rejection_for_a_subset_of_strangers_tells_whom_it_left_out() -> None:
    part = rejected(Decided(), incoming(subset=["10.9.9.9"]))

    assert [(each.by, each.endpoints) for each in part.left_out] == [("subset", [ONE, TWO, THREE])]
    assert [phase.name for phase in part.phases] == ["body", "preparation"]


async def test_a_dry_run_is_told_with_every_step_and_whom_each_left_out() -> None:
    picker = Decided(config=LABELLED, labels=GOLD)
    picker.endpoint(TWO).state.is_stale = True

    decision = await picker.rehearse(incoming(subset=["10.0.0.1", "10.0.0.2"]))
    part = view_decision(decision, time.monotonic())

    assert part.is_dry_run
    assert [(each.by, each.count, each.endpoints) for each in part.left_out] == [
        ("subset", 1, [THREE]),
        ("staleness", 1, [TWO]),
    ]
    assert ("Filter", "gold", "default") in [
        (each.extension_point, each.plugin, each.profile) for each in part.steps
    ]


async def test_a_profile_that_picked_nothing_is_told_with_its_filters() -> None:
    picker = Decided(config=LABELLED)

    part = view_decision(await picker.rehearse(), time.monotonic())

    assert part.outcome == "rejected"
    assert part.rejection is not None
    assert (part.rejection.status, part.rejection.details) == (429, "epp_rejected_saturated")
    assert part.endpoints == []
    [profile] = part.profiles
    assert (profile.name, profile.picked, profile.is_primary) == ("default", [], False)
    assert profile.filters[0].removed == [ONE, TWO, THREE]


def test_who_was_stale_and_who_was_in_no_subset_is_told() -> None:
    picker = Decided()
    picker.endpoint(TWO).state.is_stale = True
    picker.decide(incoming(subset=["10.0.0.1", "10.0.0.2"]))

    part = viewed(picker)

    assert [(each.by, each.count, each.endpoints) for each in part.left_out] == [
        ("subset", 1, [THREE]),
        ("staleness", 1, [TWO]),
    ]


def test_of_many_candidates_the_best_are_told() -> None:
    addresses = [f"10.0.0.{number}:8000" for number in range(1, 101)]
    picker = Decided(addresses)
    for number, address in enumerate(addresses):
        picker.endpoint(address).state.metrics = EndpointMetrics(waiting_queue_size=number)
    picker.decide()

    [profile] = viewed(picker).profiles

    assert [each.address for each in profile.endpoints] == addresses[:MOST_ENDPOINTS]
    assert (profile.candidates, profile.not_shown) == (100, 36)


def test_the_picked_one_is_told_even_if_it_is_not_among_the_best() -> None:
    addresses = [f"10.0.0.{number}:8000" for number in range(1, 101)]
    config = """
    plugins: [{type: queue-scorer}, {type: random-picker}]
    """
    picker = Decided(addresses, config=config)
    for number, address in enumerate(addresses):
        picker.endpoint(address).state.metrics = EndpointMetrics(waiting_queue_size=number)

    for _ in range(20):
        active = picker.decide()
        [profile] = viewed(picker).profiles
        picked = [each.address for each in profile.endpoints if each.picked == 1]
        assert picked == [active.endpoints[0].address]


def test_what_was_rejected_is_told_by_its_error() -> None:
    picker = Decided()
    picker.log.rejected(request_of(), 0.0, PlainRejection(ErrorCode.BAD_REQUEST, "no model"))

    part = viewed(picker)

    assert (part.outcome, part.reason, part.seconds) == ("rejected", "no model", None)
    assert part.pool_size is None


class Breaks(PreRequest, Filter):
    """Has a bug, wherever it is called."""

    type = "breaks"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        raise ValueError

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        raise ValueError


def test_a_pick_of_fail_open_tells_which_plugin_failed() -> None:
    config = """
    plugins: [{type: breaks}, {type: max-score-picker}]
    schedulingProfiles:
    - {name: default, plugins: [{pluginRef: breaks}, {pluginRef: max-score-picker}]}
    """
    settings = RequestPathSettings(director=DirectorSettings(failure_mode=FailureMode.FAIL_OPEN))
    picker = Decided(config=config, own_plugins=[Breaks], settings=settings)
    picker.decide()

    part = viewed(picker)

    assert (part.outcome, part.reason) == ("fail-open", "fail open (internal)")
    assert [each.plugin for each in part.steps if each.failed] == ["breaks"]
    assert [each.picked for each in part.profiles] == [[]]


def test_what_acts_on_the_decision_is_a_step_of_it_too() -> None:
    config = """
    plugins: [{type: breaks}, {type: max-score-picker}]
    schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]
    """

    part = rejected(Decided(config=config, own_plugins=[Breaks]), incoming())

    assert (part.outcome, steps(part)[-1]) == ("rejected", ("PreRequest", "breaks", ""))
    assert part.steps[-1].failed
    assert len(part.profiles[0].endpoints) == 3


def test_the_pick_of_fail_open_is_told_by_its_reason() -> None:
    picker = Decided()
    picker.path.director.best_effort(incoming(), "deadline")

    [decision] = picker.log.last(1)
    summary = summary_of(decision, time.monotonic())

    assert (summary.outcome, summary.reason) == ("fail-open", "fail open (deadline)")
    assert len(summary.endpoints) == 1
