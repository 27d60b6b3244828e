"""What went wrong with the picks of other Endpoint Pickers, tried on whole configurations."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from epp.framework.data_types import IN_FLIGHT_LOAD, InFlightLoad
from epp.framework.endpoint import EndpointMetrics
from epp.framework.errors import DropReason, Rejection
from epp.library import Pick, Picker

A, B, C, D = POOL = tuple(f"10.0.0.{number}:8000" for number in (1, 2, 3, 4))
PREFILL = {"llm-d.ai/role": "prefill"}
DECODE = {"llm-d.ai/role": "decode"}

COLD_SPREADER = """\
plugins: [{type: prefix-cache-scorer}, {type: no-hit-lru-scorer}, {type: queue-scorer}]
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: queue-scorer, weight: 0.1}
  - {pluginRef: no-hit-lru-scorer, weight: 1}
"""
IDLE_BONUS = """\
plugins:
- type: active-request-scorer
  parameters: {idleThreshold: 0, maxBusyScore: 0.5}
- type: prefix-cache-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: active-request-scorer, weight: 4}
  - {pluginRef: prefix-cache-scorer, weight: 1}
"""
DISAGGREGATED = """\
plugins:
- type: disagg-profile-handler
  parameters: {deciders: {prefill: decider}}
- {name: decider, type: %s}
- type: prefill-filter
- type: decode-filter
- type: active-request-scorer
schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: active-request-scorer}]
- name: decode
  plugins: [{pluginRef: decode-filter}, {pluginRef: active-request-scorer}]
"""
FOUR_SCORERS = """\
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: active-request-scorer
"""


def picker_of(text: str = "", *, pool: Iterable[str] = POOL) -> Picker:
    picker = Picker.from_config(text, seed=1)
    for address in pool:
        picker.add(address)
    return picker


def prompt_of(number: int) -> str:
    return f"{number} is what this prompt begins with, " * 40


def in_flight(picker: Picker, address: str) -> int:
    (endpoint,) = (each for each in picker.endpoints if each.address == address)
    key = IN_FLIGHT_LOAD.key(IN_FLIGHT_LOAD.default_producer)
    load: InFlightLoad = endpoint.state.attributes[key]
    return load.requests


def prefix_scores(pick: Pick) -> dict[str, float]:
    assert pick.result is not None
    profile = pick.result.profiles["default"]
    (scored,) = (each for each in profile.scorers if each.name == "prefix-cache-scorer")
    addresses = [endpoint.address for endpoint in profile.candidates]
    return dict(zip(addresses, scored.scores, strict=True))


def chat(tools: list[dict[str, Any]], user: str) -> dict[str, Any]:
    system = "You answer questions about trains, briefly. " * 20
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ],
        "tools": tools,
    }


def tools_of(first: str) -> list[dict[str, Any]]:
    """About 4 KB of them."""
    names = (first, *(f"tool_{number}" for number in range(20)))
    return [
        {"type": "function", "function": {"name": name, "description": "Looks it up. " * 9}}
        for name in names
    ]


def test_tools_belong_to_the_prefix() -> None:
    """Pitfall 14."""
    picker = picker_of()
    chats = "/v1/chat/completions"
    first = picker.pick(body=chat(tools_of("find"), "When does it leave? " * 20), path=chats)
    first.done()

    same_tools = picker.pick(body=chat(tools_of("find"), "Is it late? " * 20), path=chats)
    other_name = picker.pick(body=chat(tools_of("seek"), "When does it leave? " * 20), path=chats)

    # 3.9 KB of tools and 0.9 KB of system text, 0.2 KB of the user's.
    assert prefix_scores(same_tools)[first.address] > 0.9
    assert prefix_scores(other_name)[first.address] == 0


def test_chats_that_differ_in_a_tool_calls_arguments_share_what_stands_before() -> None:
    """Pitfall 13."""
    picker = picker_of()

    def with_arguments(arguments: str) -> dict[str, Any]:
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        return {
            "model": "m",
            "messages": [
                {"role": "user", "content": "a question " * 100},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": "an answer " * 100},
            ],
        }

    first = picker.pick(body=with_arguments('{"a": 1}'), path="/v1/chat/completions")
    first.done()
    second = picker.pick(body=with_arguments('{"a": 2}'), path="/v1/chat/completions")

    assert 0.4 < prefix_scores(second)[first.address] < 0.6


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"model": "m", "previous_response_id": "r1", "input": "hi"}),
        ("/v1/responses", {"model": "m", "instructions": "be brief", "input": [{"role": "user"}]}),
        ("/v1/conversations", {"model": "m", "items": [{"type": "message", "content": "hi"}]}),
    ],
    ids=["previous response", "items", "conversation"],
)
def test_responses_and_conversations_are_picked_for_by_their_prompt(
    path: str, body: dict[str, Any]
) -> None:
    """Pitfall 16."""
    picker = picker_of()
    first = picker.pick(body=body, path=path)
    first.done()

    assert prefix_scores(picker.pick(body=body, path=path))[first.address] == 1


def test_filters_that_leave_nobody_are_a_429_that_says_so() -> None:
    """Pitfall 19."""
    picker = picker_of(
        "plugins: [{type: label-selector-filter, parameters: {matchLabels: {tier: gold}}}]",
        pool=(A, B),
    )

    with pytest.raises(Rejection) as caught:
        picker.pick(model="m", prompt="Hello")

    assert caught.value.http_status == 429
    assert caught.value.drop_reason is DropReason.SATURATED


def test_a_pool_without_endpoints_is_a_503_until_there_is_one() -> None:
    """Pitfall 20."""
    picker = picker_of(pool=())

    with pytest.raises(Rejection) as caught:
        picker.pick(model="m", prompt="Hello")

    assert caught.value.http_status == 503
    assert caught.value.drop_reason is DropReason.NO_ENDPOINTS
    picker.add(A)
    assert picker.pick(model="m", prompt="Hello").address == A


@pytest.mark.parametrize("waiting", [0, 1])
def test_cold_prompts_one_after_another_spread_over_the_pool(waiting: int) -> None:
    """Pitfall 21. With one endpoint a little better off, equals taking turns would not do."""
    picker = picker_of(COLD_SPREADER)
    for address in (B, C, D):
        picker.observe(address, EndpointMetrics(waiting_queue_size=waiting))
    served: Counter[str] = Counter()

    for number in range(40):
        with picker.pick(model="m", prompt=prompt_of(number)) as pick:
            served[pick.address] += 1

    assert all(6 <= served[address] <= 14 for address in POOL)


def test_a_prefix_that_all_share_does_not_keep_the_others_idle() -> None:
    """Pitfall 21: the bonus for idle endpoints outweighs one cached prefix."""
    picker = picker_of(IDLE_BONUS)

    picks = [picker.pick(model="m", prompt="the same beginning " * 100) for _ in range(4)]

    assert {pick.address for pick in picks} == set(POOL)


def test_a_cache_miss_is_decided_by_load() -> None:
    """Pitfall 22."""
    picker = picker_of(pool=(A, B))
    for number in range(50):
        picker.pick(model="m", prompt=prompt_of(number), among=[B]).done()
    picker.observe(A, EndpointMetrics(waiting_queue_size=40))
    picker.observe(B, EndpointMetrics())

    assert picker.pick(model="m", prompt="never seen before " * 100).address == B


def test_prefill_that_is_required_and_has_no_endpoint_is_a_503() -> None:
    """Pitfall 23."""
    picker = picker_of(DISAGGREGATED % "always-disagg-pd-decider", pool=())
    picker.add(D, labels=DECODE)

    with pytest.raises(Rejection) as caught:
        picker.pick(model="m", prompt="Hello")

    assert caught.value.http_status == 503
    assert caught.value.drop_reason is DropReason.NO_ENDPOINTS


def test_prefill_that_nobody_asks_for_needs_no_endpoint() -> None:
    """Pitfall 23: a decider that declines leaves everything to decode."""
    picker = picker_of(DISAGGREGATED % "always-disagg-multimodal-decider", pool=())
    picker.add(D, labels=DECODE)

    pick = picker.pick(model="m", prompt="Hello")

    assert pick.address == D
    assert pick.headers["x-prefiller-host-port"] is None


def test_prefill_is_in_flight_until_the_first_token_and_decode_until_the_end() -> None:
    """Pitfall 24."""
    picker = picker_of(DISAGGREGATED % "always-disagg-pd-decider", pool=())
    picker.add(A, labels=PREFILL)
    picker.add(D, labels=DECODE)

    pick = picker.pick(model="m", prompt="Hello")
    sent = in_flight(picker, A), in_flight(picker, D)
    pick.first_token()
    computed = in_flight(picker, A), in_flight(picker, D)
    pick.done()

    assert (pick.address, pick.headers["x-prefiller-host-port"]) == (D, A)
    assert (sent, computed) == ((1, 1), (0, 1))
    assert (in_flight(picker, A), in_flight(picker, D)) == (0, 0)


def test_requests_between_two_scrapes_see_one_another() -> None:
    """Pitfall 25."""
    picker = picker_of("plugins: [{type: active-request-scorer}]")

    served = Counter(picker.pick(model="m", prompt=prompt_of(n)).address for n in range(40))

    assert all(8 <= served[address] <= 12 for address in POOL)


def test_an_endpoint_that_comes_back_has_lost_its_cache() -> None:
    """Pitfall 40."""
    picker = picker_of(pool=(A, B))
    picker.pick(model="m", prompt=prompt_of(1), among=[A]).done()
    warm = prefix_scores(picker.pick(model="m", prompt=prompt_of(1), among=[A, B]))

    picker.remove(A)
    picker.add(A)

    assert warm == {A: 1, B: 0}
    assert prefix_scores(picker.pick(model="m", prompt=prompt_of(1), among=[A])) == {A: 0}


def calls_of_a_pick(endpoints: int) -> int:
    """How many functions are called for a request whose prompt is cached somewhere."""
    pool = [f"10.0.{number // 200}.{number % 200 + 1}:8000" for number in range(endpoints)]
    picker = picker_of(FOUR_SCORERS, pool=pool)
    for _ in range(10):
        picker.pick(model="m", prompt=prompt_of(1)).done()
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        picker.pick(model="m", prompt=prompt_of(1))
    finally:
        sys.setprofile(before)
    return calls


def test_the_work_of_a_pick_grows_no_faster_than_the_pool() -> None:
    """Pitfall 58, in calls rather than in seconds."""
    few, some, many = (calls_of_a_pick(endpoints) for endpoints in (5, 25, 100))

    assert (some - few) / 20 < 15
    assert (many - some) / 75 < 15
    assert many < 4 * some
