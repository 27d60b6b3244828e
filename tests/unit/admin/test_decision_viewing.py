from __future__ import annotations

import time
from datetime import datetime

import msgspec

from epp.admin.decision_view import DecisionPart
from epp.admin.decision_viewing import MOST_ENDPOINTS, summary_of, view_decision
from epp.framework.endpoint import EndpointMetrics
from epp.framework.errors import ErrorCode, Rejection
from epp.testing import request_of
from tests.fakes.decided import Decided, incoming

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


def test_times_are_told_as_far_as_they_were_kept() -> None:
    picker = Decided()
    before = time.time()
    picker.decide()

    part = viewed(picker)

    assert [phase.name for phase in part.phases] == ["body", "preparation", "scheduling"]
    assert part.seconds is not None
    whole = sum(phase.seconds for phase in part.phases[1:])
    assert abs(part.seconds - whole) < 1e-6
    assert part.steps == []
    decided_at = datetime.fromisoformat(part.decided_at).timestamp()
    assert before - 1 < decided_at < time.time() + 1


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


def test_who_was_stale_is_found_again_and_of_a_subset_the_number() -> None:
    picker = Decided()
    picker.endpoint(TWO).state.is_stale = True
    picker.decide(incoming(subset=["10.0.0.1", "10.0.0.2"]))

    part = viewed(picker)

    assert [(each.by, each.count, each.endpoints) for each in part.left_out] == [
        ("subset or ejection", 1, []),
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
    picker.log.rejected(request_of(), 0.0, Rejection(ErrorCode.BAD_REQUEST, "no model"))

    part = viewed(picker)

    assert (part.outcome, part.reason, part.seconds) == ("rejected", "no model", None)
    assert part.pool_size is None


def test_the_pick_of_fail_open_is_told_by_its_reason() -> None:
    picker = Decided()
    picker.path.director.best_effort(incoming(), "deadline")

    [decision] = picker.log.last(1)
    summary = summary_of(decision, time.monotonic())

    assert (summary.outcome, summary.reason) == ("fail-open", "fail open (deadline)")
    assert len(summary.endpoints) == 1
