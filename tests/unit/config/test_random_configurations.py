"""What holds of every configuration that loads, whatever pool and requests it meets."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from epp.framework.endpoint import EndpointMetrics
from epp.framework.errors import ErrorCode, Rejection
from epp.library import Pick, Picker

SCORERS: dict[str, list[dict[str, Any]]] = {
    "queue-scorer": [{}],
    "running-requests-size-scorer": [{}],
    "kv-cache-utilization-scorer": [{}],
    "lora-affinity-scorer": [{}],
    "prefix-cache-scorer": [{}, {"matchLengthWeight": 1, "matchLengthScaleTokens": 1}],
    "load-aware-scorer": [{}, {"threshold": 1}],
    "active-request-scorer": [{}, {"idleThreshold": 2, "maxBusyScore": 0.5}],
    "token-load-scorer": [{}, {"queueThresholdTokens": 10}],
    "expected-work-scorer": [{}, {"alpha": 1e9, "kappa": 1e9, "slowness": False}],
    "no-hit-lru-scorer": [{}, {"lruSize": 1}],
    "context-length-aware": [{}, {"enableFiltering": True}],
    "latency-scorer": [{}, {"compositeKVWeight": -1, "compositeQueueWeight": 1e300}],
    "mm-embeddings-cache-scorer": [{}],
    "session-affinity-scorer": [{}, {"strategy": "session_id"}],
    "header-label-affinity-scorer": [{"headerName": "x-tier", "labelKey": "tier"}],
    "topology-affinity-scorer": [{}],
}
FILTERS: dict[str, list[dict[str, Any]]] = {
    "decode-filter": [{}],
    "label-selector-filter": [{}, {"matchLabels": {"tier": "gold"}}],
    "prefix-cache-affinity-filter": [{}, {"affinityThreshold": 0.01, "maxTTFTPenaltyMs": 0}],
    "utilization-filter": [{"conditions": [{"metric": "active-requests", "maxValue": 1}]}],
    "session-affinity-filter": [{}, {"strategy": "session_id"}],
    "utilization-detector": [{}, {"headroom": 1e300}],
    "concurrency-detector": [{}, {"concurrencyMode": "hybrid", "maxTokenConcurrency": 100}],
}
PRODUCERS: dict[str, list[dict[str, Any]]] = {
    "inflight-load-producer": [{}, {"addEstimatedOutputTokens": True, "outputRatio": 1_000_000}],
    "approx-prefix-cache-producer": [
        {},
        {"autoTune": False, "blockSizeTokens": 2**63 - 1},
        {"maxPrefixTokensToMatch": 0, "maxPrefixBlocksToMatch": 1, "lruCapacityPerServer": 1},
    ],
}
PICKERS = ("max-score-picker", "random-picker", "weighted-random-picker")
DISAGG = {"deciders": {"prefill": "always-disagg-pd-decider"}, "allowDecodeOnly": True}

counts = st.sampled_from([0, 1, 7, 2**53])
models = st.frozensets(st.sampled_from(["m", "a"]))


@dataclass(frozen=True)
class Member:
    """An endpoint of the pool and what it says of itself, if it has said anything."""

    labels: dict[str, str]
    metrics: EndpointMetrics | None


members = st.builds(
    Member,
    labels=st.fixed_dictionaries(
        {},
        optional={
            "tier": st.sampled_from(["gold", "tin"]),
            "llm-d.ai/role": st.sampled_from(["decode", "prefill", "both"]),
            "llm-d.ai/context-length-range": st.sampled_from(["0-9", "5-100000", "many"]),
        },
    ),
    metrics=st.none()
    | st.builds(
        EndpointMetrics,
        waiting_queue_size=counts,
        running_requests_size=counts,
        kv_cache_usage=st.sampled_from([0.0, 0.5, 1.0, 1.05]),
        active_models=models,
        waiting_models=models,
        max_active_models=st.integers(0, 2),
        cache_block_size=st.sampled_from([0, 16, 128, 2**53]),
        cache_num_blocks=st.sampled_from([0, 3, 2**53]),
    ),
)
requests = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["m", "a"]),
        "prompt": st.sampled_from(["short", "much of the same " * 90, [1, 2, 3] * 200]),
        "headers": st.fixed_dictionaries(
            {},
            optional={
                "x-tier": st.sampled_from(["gold", ""]),
                "x-session-id": st.sampled_from(["s", "t" * 300]),
                "x-session-token": st.sampled_from(["ZGVmYXVsdC8xMC4wLjAuMDo4MDAw", "?"]),
            },
        ),
    }
)


@st.composite
def configurations(draw: st.DrawFn) -> str:
    picker = draw(st.sampled_from(PICKERS))
    scorers = draw(st.sets(st.sampled_from(sorted(SCORERS)), min_size=1, max_size=5))
    filters = draw(st.sets(st.sampled_from(sorted(FILTERS)), max_size=2))
    known = SCORERS | FILTERS | PRODUCERS
    plugins = [
        {"type": each, "parameters": draw(st.sampled_from(known[each]))}
        for each in (*sorted(filters), *sorted(scorers), *PRODUCERS)
    ]
    plugins.append({"type": picker, "parameters": {"maxNumOfEndpoints": draw(st.integers(0, 3))}})
    references: list[dict[str, Any]] = [{"pluginRef": each} for each in sorted(filters)]
    for each in sorted(scorers):
        weight = draw(st.sampled_from([1, 2.5, 0, -1, 1e300]))
        references.append({"pluginRef": each, "weight": weight})
    names = ["default"]
    if draw(st.booleans()):
        names = ["decode", "prefill"]
        plugins.append({"type": "disagg-profile-handler", "parameters": DISAGG})
        plugins.append({"type": "always-disagg-pd-decider"})
    profiles = [{"name": name, "plugins": [*references, {"pluginRef": picker}]} for name in names]
    return yaml.safe_dump({"plugins": plugins, "schedulingProfiles": profiles})


@settings(max_examples=60)
@given(
    text=configurations(),
    pool=st.lists(members, min_size=1, max_size=5),
    asked=st.lists(requests, min_size=1, max_size=5),
    ends=st.data(),
)
def test_every_request_gets_an_endpoint_or_a_refusal_and_nothing_is_left_of_it(
    text: str, pool: list[Member], asked: list[dict[str, Any]], ends: st.DataObject
) -> None:
    picker = Picker.from_config(text, seed=1, allow_experimental=True, now=lambda: 1000.0)
    for number, member in enumerate(pool):
        picker.add(f"10.0.0.{number}:8000", labels=member.labels)
        if member.metrics is not None:
            picker.observe(f"10.0.0.{number}:8000", member.metrics)
    picks: list[Pick] = []
    refusals: set[ErrorCode] = set()

    with capture_logs() as logs:
        for request in asked:
            try:
                picks.append(picker.pick(**request))
            except Rejection as refused:
                refusals.add(refused.code)
        for pick in picks:
            check_pick(pick, picker)
            end(pick, ends.draw(st.sampled_from(["done", "failed", "unanswered"])))

    assert refusals <= {ErrorCode.RESOURCE_EXHAUSTED}
    assert [line for line in logs if line["log_level"] in ("warning", "error")] == []
    for endpoint in picker.endpoints:
        assert endpoint.load.in_flight == 0
        for value in endpoint.state.attributes.values():
            assert getattr(value, "requests", 0) == getattr(value, "waiting_tokens", 0) == 0


def check_pick(pick: Pick, picker: Picker) -> None:
    assert pick.result is not None
    for profile in pick.result.profiles.values():
        assert set(profile.endpoints) <= set(profile.candidates) <= set(picker.endpoints)
        assert 1 <= len(set(profile.endpoints)) == len(profile.endpoints) <= 3
        assert all(map(isfinite, profile.totals))
        for scorer in profile.scorers:
            assert not any(map(isnan, scorer.scores)), scorer.name


def end(pick: Pick, how: str) -> None:
    if how == "done":
        pick.responded()
        pick.first_token()
        pick.done()
    else:
        if how == "failed":
            pick.responded(500)
        pick.failed()


@pytest.mark.parametrize("scorer", SCORERS)
def test_of_endpoints_that_differ_in_nothing_each_gets_as_much(scorer: str) -> None:
    plugins = [{"type": scorer, "parameters": SCORERS[scorer][0]}, {"type": "max-score-picker"}]
    if scorer == "token-load-scorer":
        plugins.append({"type": "inflight-load-producer"})
    text = yaml.safe_dump({"plugins": plugins})
    picker = Picker.from_config(text, seed=1, allow_experimental=True, now=lambda: 1000.0)
    for number in range(5):
        picker.add(f"10.0.0.{number}:8000")

    picked = []
    for number in range(15):
        pick = picker.pick(model="m", prompt=f"{number} is a prompt like no other")
        picked.append(pick.address)
        end(pick, "done")

    assert sorted(picked) == sorted(3 * [endpoint.address for endpoint in picker.endpoints])
