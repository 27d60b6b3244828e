from __future__ import annotations

from typing import Any

import msgspec

from epp.admin.decision_view import (
    CandidatePart,
    DecisionList,
    DecisionPart,
    FilterPart,
    LeftOutPart,
    LoadPart,
    PhasePart,
    PrefixPart,
    ProfilePart,
    Rejected,
    ScorerPart,
    StepPart,
    Summary,
)
from epp.diagnosis.decision_text import decision_table, decision_text

SUMMARY: dict[str, Any] = {
    "request_id": "abc",
    "path": "/v1/completions",
    "model": "m",
    "target_model": "m",
    "decided_at": "2026-01-31T12:00:00.000Z",
    "seconds": 0.0004,
    "outcome": "picked",
    "endpoints": ["10.0.0.1:8000"],
    "reason": "best of 2 endpoints",
}
PROFILE = ProfilePart(
    name="default",
    is_primary=True,
    role="",
    picked=["10.0.0.1:8000"],
    reason="best of 2 endpoints",
    candidates=4,
    filters=[FilterPart(plugin="gold", before=5, after=4, removed=["10.0.0.9:8000"])],
    scorers=[ScorerPart(plugin="queue", weight=2.0), ScorerPart(plugin="kv", weight=0.5)],
    endpoints=[
        CandidatePart(
            address="10.0.0.1:8000", total=2.25, scores=[1.0, 0.5], weighted=[2.0, 0.25], picked=1
        ),
        CandidatePart(
            address="10.0.0.2:8000", total=0.0, scores=[0.0, 0.0], weighted=[0.0, 0.0], picked=2
        ),
    ],
    not_shown=2,
)


def decision(**others: Any) -> DecisionPart:
    values: dict[str, Any] = {
        "fairness_id": "default-flow",
        "priority": 0,
        "is_dry_run": False,
        "rejection": None,
        "pool_size": 6,
        "left_out": [LeftOutPart(by="staleness", count=1, endpoints=["10.0.0.7:8000"])],
        "profiles": [PROFILE],
        "phases": [PhasePart(name="scheduling", seconds=0.0002)],
        "steps": [],
    }
    return DecisionPart(**{**SUMMARY, **values, **others})


def test_a_decision_reads_from_its_outcome_to_its_time() -> None:
    assert decision_text(decision()) == (
        "request      abc\n"
        "path         /v1/completions\n"
        "model        m\n"
        "priority     0, fairness id default-flow\n"
        "decided      2026-01-31T12:00:00.000Z, in 0.400 ms\n"
        "endpoint     10.0.0.1:8000\n"
        "why          best of 2 endpoints\n"
        "\n"
        "CANDIDATES             LEFT  LEFT OUT\n"
        "endpoints of the pool  6\n"
        "after staleness        5     10.0.0.7:8000\n"
        "\n"
        "profile default (primary) picked 10.0.0.1:8000: best of 2 endpoints\n"
        "\n"
        "FILTER  BEFORE  AFTER  REMOVED\n"
        "gold    5       4      10.0.0.9:8000\n"
        "\n"
        "ENDPOINT       TOTAL  queue x2        kv x0.5         PICKED\n"
        "10.0.0.1:8000  2.250  1.000 -> 2.000  0.500 -> 0.250  picked\n"
        "10.0.0.2:8000  0.000  0.000 -> 0.000  0.000 -> 0.000  fallback 1\n"
        "and 2 more\n"
        "\n"
        "TIME      STEP\n"
        "0.200 ms  scheduling\n"
    )


def test_steps_of_a_dry_run_are_told_with_their_plugins() -> None:
    step = StepPart(
        extension_point="Scorer", plugin="kv", profile="default", seconds=0.00001, failed=True
    )

    text = decision_text(decision(is_dry_run=True, steps=[step]))

    assert text.startswith("request      abc (dry run: nothing was sent, reserved, counted or")
    assert "TIME      STEP        PLUGIN     PROFILE\n" in text
    assert "0.010 ms  Scorer      kv FAILED  default\n" in text


def test_scores_that_were_kept_are_told_among_the_times() -> None:
    scorers = [ScorerPart(plugin="queue", weight=2.0, is_kept=True), PROFILE.scorers[1]]
    profile = msgspec.structs.replace(PROFILE, scorers=scorers)

    text = decision_text(decision(profiles=[profile]))

    assert text.endswith(
        "TIME      STEP        PLUGIN  PROFILE\n"
        "0.200 ms  scheduling\n"
        "kept      Scorer      queue   default\n"
    )


def test_what_scores_were_made_of_is_told_below_them() -> None:
    loads = [
        LoadPart(waiting=3, running=12, kv_cache_usage=0.425, age_seconds=0.031),
        None,
    ]
    seen = [
        msgspec.structs.replace(each, load=load)
        for each, load in zip(PROFILE.endpoints, loads, strict=True)
    ]
    held = PrefixPart(matched_blocks=3, prompt_blocks=8, block_tokens=64)
    matched = [msgspec.structs.replace(seen[0], prefix=held), seen[1]]

    kept, dry_run = [
        decision_text(decision(profiles=[msgspec.structs.replace(PROFILE, endpoints=each)]))
        for each in (seen, matched)
    ]

    assert (
        "\n\n"
        "ENDPOINT       WAITING  RUNNING  KV CACHE  AGE\n"
        "10.0.0.1:8000  3        12       42.5%     0.031 s\n"
        "10.0.0.2:8000                              never heard of\n"
        "and 2 more\n"
    ) in kept
    assert "42.5%     0.031 s         3 of 8 blocks of 64 tokens\n" in dry_run


def test_a_rejection_is_told_by_status_and_details() -> None:
    rejection = Rejected(
        status=429,
        code="ResourceExhausted",
        details="epp_rejected_saturated",
        message="no endpoints available",
    )
    rejected = decision(
        outcome="rejected",
        rejection=rejection,
        endpoints=[],
        reason="no endpoints available",
        seconds=None,
        pool_size=None,
        profiles=[],
        phases=[],
    )

    text = decision_text(rejected)

    assert "rejected     429 ResourceExhausted, epp_rejected_saturated\n" in text
    assert text.endswith("why          no endpoints available\n")


def test_a_rewrite_is_told() -> None:
    assert "model        m, sent as m-v2\n" in decision_text(decision(target_model="m-v2"))


def test_many_addresses_are_told_as_a_number() -> None:
    addresses = [f"10.0.0.{number}:8000" for number in range(64)]
    left_out = [
        LeftOutPart(by="subset", count=900, endpoints=addresses),
        LeftOutPart(by="screener", plugin="s", count=50, endpoints=[]),
    ]

    text = decision_text(decision(pool_size=1000, left_out=left_out))

    assert "10.0.0.7:8000, and 892 more\n" in text
    assert "after screener s       50    50\n" in text


def test_what_clients_chose_can_not_write_to_the_terminal() -> None:
    escape = "\x1b[2J"

    text = decision_text(decision(request_id=escape, model=escape, fairness_id=escape, path=escape))
    table = decision_table(
        DecisionList(size=9, kept=1, decisions=[Summary(**{**SUMMARY, "request_id": escape})])
    )

    assert "\x1b" not in text + table


def test_the_last_decisions_are_a_line_each() -> None:
    rejected = {**SUMMARY, "outcome": "rejected", "endpoints": [], "reason": "full"}
    decisions = [Summary(**SUMMARY), Summary(**rejected)]

    assert decision_table(DecisionList(size=256, kept=40, decisions=decisions)) == (
        "DECIDED                   REQUEST  MODEL  ENDPOINT       WHY\n"
        "2026-01-31T12:00:00.000Z  abc      m      10.0.0.1:8000  best of 2 endpoints\n"
        "2026-01-31T12:00:00.000Z  abc      m      rejected       full\n"
        "\n"
        "2 of 40 kept; epp explain REQUEST tells all of one\n"
    )


def test_without_a_decision_there_is_nothing_to_list() -> None:
    assert decision_table(DecisionList(size=9, kept=0, decisions=[])) == "no decision yet\n"
