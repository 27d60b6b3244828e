from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.endpoint import Endpoint
from epp.framework.scheduling_results import (
    FilterResult,
    ProfileResult,
    SchedulingResult,
    ScorerResult,
)
from epp.observability.request_log import MAX_REASON
from epp.request_control.explanation import (
    MOST_TEXT,
    SCORES_KEY,
    SCORES_NAMESPACE,
    decision_text,
    reason_of,
    tell_scores,
)
from epp.testing import endpoint_of, request_of

ENDPOINTS = [endpoint_of(f"e{number}", address=f"10.0.0.{number}:80") for number in (1, 2, 3)]
A, B, C = ENDPOINTS
DEFAULT = {
    "queue-scorer": (2.0, [1.0, 0.5, 0.0]),
    "kv-cache-utilization-scorer": (2.0, [0.25, 1.0, 1.0]),
    "prefix-cache-scorer": (3.0, [1.0, 0.0, 0.0]),
}


def profile(
    scores: Mapping[str, tuple[float, Sequence[float]]],
    picked: Endpoint = A,
    candidates: Sequence[Endpoint] = (A, B, C),
    filters: Sequence[FilterResult] = (),
) -> ProfileResult:
    totals = [0.0] * len(candidates)
    for weight, values in scores.values():
        totals = [total + weight * value for total, value in zip(totals, values, strict=True)]
    scorers = [ScorerResult(name, weight, values) for name, (weight, values) in scores.items()]
    return ProfileResult(
        endpoints=(picked,), candidates=candidates, totals=totals, scorers=scorers, filters=filters
    )


def reason(only: ProfileResult) -> str:
    return reason_of(SchedulingResult(primary="default", profiles={"default": only}))


def test_the_best_endpoint_is_explained_by_what_each_scorer_gave_it() -> None:
    assert reason(profile(DEFAULT)) == (
        "best of 3 endpoints:"
        " 5.50 = queue 1.00x2 + kv-cache-utilization 0.25x2 + prefix-cache 1.00x3"
    )


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([1.0, 1.0, 0.0], "one of 2 best of 3 endpoints: 1.00 = queue 1.00x1"),
        ([0.5, 0.5, 0.5], "one of 3 equal endpoints: 0.50 = queue 0.50x1"),
        ([0.5, 1.0, 0.0], "one of 3 endpoints, the best with 1.00: 0.50 = queue 0.50x1"),
    ],
    ids=["takes turns with some", "takes turns with all", "drawn by lot"],
)
def test_it_does_not_claim_more_than_the_scores_say(scores: list[float], told: str) -> None:
    assert reason(profile({"queue-scorer": (1.0, scores)})) == told


def test_without_scorers_there_is_nothing_to_compare() -> None:
    assert reason(profile({})) == "one of 3 endpoints"
    assert reason(profile({}, candidates=[A])) == "only endpoint"


def test_filters_are_told_that_took_something_out() -> None:
    filters = [
        FilterResult("all-pass", ENDPOINTS, ENDPOINTS),
        FilterResult("healthy", ENDPOINTS, [A, B]),
        FilterResult("by-label", [A, B], [A]),
    ]

    told = reason(profile({"queue-scorer": (1.0, [0.5])}, candidates=[A], filters=filters))

    assert told == "only endpoint (2 filtered out: healthy 1, by-label 1): 0.50 = queue 0.50x1"


def test_other_profiles_are_told_with_what_they_picked() -> None:
    decode = profile({"queue-scorer": (1.0, [1.0, 0.5, 0.0])})
    prefill = profile({"prefix-cache-scorer": (2.0, [0.0, 1.0, 0.0])}, picked=B)
    result = SchedulingResult(primary="decode", profiles={"prefill": prefill, "decode": decode})

    assert reason_of(result) == (
        "decode best of 3 endpoints: 1.00 = queue 1.00x1;"
        " prefill -> 10.0.0.2:80 best of 3 endpoints: 2.00"
    )


def test_a_long_list_of_plugins_shows_those_that_count_most() -> None:
    scores = {f"s{number}-scorer": (1.0, [number / 10, 0.0, 0.0]) for number in range(9)}

    told = reason(profile(scores))

    assert told == (
        "best of 3 endpoints: 3.60 ="
        " s8 0.80x1 + s7 0.70x1 + s6 0.60x1 + s5 0.50x1 + s4 0.40x1 + 4 more"
    )


def test_many_profiles_and_filters_stay_short() -> None:
    filters = [FilterResult(f"filter-{number}", ENDPOINTS, ENDPOINTS[:2]) for number in range(100)]
    profiles = {f"profile-{number}": profile(DEFAULT, filters=filters) for number in range(100)}

    told = reason_of(SchedulingResult(primary="profile-0", profiles=profiles))

    assert "filter-2 1, ...)" in told
    assert told.endswith("and 95 more profiles")
    assert len(told) < 3 * MAX_REASON


def moved(endpoint: Endpoint, port: int) -> Endpoint:
    """The same endpoint behind its pod's sidecar."""
    return replace(endpoint, port=port, address=f"{endpoint.ip}:{port}")


def test_an_endpoint_that_was_given_another_port_is_explained_all_the_same() -> None:
    only = profile({"queue-scorer": (1.0, [1.0, 0.5, 0.0])}, picked=moved(A, 9000))
    other = profile({"queue-scorer": (1.0, [0.5, 1.0, 0.0])}, picked=moved(B, 9000))
    both = SchedulingResult(primary="decode", profiles={"decode": only, "prefill": other})

    assert reason(only) == "best of 3 endpoints: 1.00 = queue 1.00x1"
    assert reason_of(both).endswith("; prefill -> 10.0.0.2:9000 best of 3 endpoints: 1.00")


def decision(**profiles: ProfileResult) -> str:
    return decision_text(SchedulingResult(primary="default", profiles=profiles))


def test_a_decision_tells_every_word_on_every_candidate_best_first() -> None:
    scores = {"queue-scorer": (2.0, [0.5, 1.0, 0.0]), "kv": (-1.0, [0.0, 0.25, 1 / 3])}

    assert decision(default=profile(scores, picked=B)) == (
        "default -> 10.0.0.2:80:"
        " 10.0.0.2:80=1.75(queue-scorer 1x2, kv 0.25x-1)"
        " 10.0.0.1:80=1(queue-scorer 0.5x2, kv 0x-1)"
        " 10.0.0.3:80=-0.3333(queue-scorer 0x2, kv 0.3333x-1)"
    )


def test_a_decision_shows_the_best_of_many_candidates() -> None:
    many = [endpoint_of(f"e{number}") for number in range(1, 101)]
    only = profile({"s": (1.0, [number / 100 for number in range(100)])}, many[99], many)

    told = decision(default=only)

    assert told.count("(s ") == 8
    assert told.startswith("default -> 10.0.0.100:8000: 10.0.0.100:8000=0.99(s 0.99x1) ")
    assert told.endswith(" and 92 more")


def test_a_decision_without_candidates_tells_the_pick_alone() -> None:
    assert decision(default=ProfileResult(endpoints=(A, B))) == (
        "default -> 10.0.0.1:80,10.0.0.2:80"
    )


@given(names=st.lists(st.text(max_size=2000), min_size=1, max_size=6, unique=True))
def test_a_decision_fits_in_a_header_whatever_things_are_called(names: list[str]) -> None:
    scores = {name: (1.0, [1.0, 0.5, 0.0]) for name in names}

    told = decision(**{name: profile(scores) for name in names})

    assert len(told) <= MOST_TEXT
    assert all(" " <= character <= "~" for character in told)


def test_scores_that_are_told_are_those_of_the_primary_profile() -> None:
    primary = profile({"s": (2.0, [1.0, 0.5, 0.0])})
    other = profile({"s": (1.0, [0.0, 0.0, 1.0])})
    request = request_of()

    tell_scores(
        request,
        SchedulingResult(primary="decode", profiles={"prefill": other, "decode": primary}),
    )

    assert request.dynamic_metadata == {
        SCORES_NAMESPACE: {SCORES_KEY: {"10.0.0.1:80": 2.0, "10.0.0.2:80": 1.0, "10.0.0.3:80": 0.0}}
    }


def test_nothing_is_told_of_a_profile_without_scores() -> None:
    request = request_of()

    tell_scores(
        request, SchedulingResult(primary="p", profiles={"p": ProfileResult(endpoints=(A,))})
    )

    assert request.dynamic_metadata == {}
