"""`expected-work-scorer`: what it counts, when it lets go of it, and what it learns meanwhile."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data import Output
from epp.framework.data_types import (
    PREFIX_MATCH,
    TOKENIZED_PROMPT,
    PrefixMatch,
    Prompt,
    TokenizedPrompt,
)
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest, TerminationCause
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.framework.usage import Usage
from epp.plugins.scorers.dispatched_work import DispatchedWork
from epp.plugins.scorers.expected_work import DISPATCHED_WORK, ExpectedWorkScorer
from epp.testing import FakeContext, built, endpoint_of, put, request_of, response_of
from tests.fakes.clock import Clock

KEY = DISPATCHED_WORK.key("expected-work-scorer")


def scorer_of(clock: Clock | None = None) -> ExpectedWorkScorer:
    return built(ExpectedWorkScorer, FakeContext("expected-work-scorer", now=clock or Clock()))


def pool(count: int = 3, *, places: int = 0) -> list[Endpoint]:
    return [endpoint_of(f"e{number}", max_active_models=places) for number in range(1, count + 1)]


def prompted(tokens: int, model: str = "m") -> InferenceRequest:
    request = request_of(model)
    prompt = TokenizedPrompt((Prompt(bytes(4 * tokens)),))
    Output(TOKENIZED_PROMPT, TOKENIZED_PROMPT.default_producer).put(request, prompt)
    return request


def picked(endpoint: Endpoint, *, prefill: Endpoint | None = None) -> SchedulingResult:
    profiles = {"decode": ProfileResult(endpoints=(endpoint, *pool()))}
    if prefill is not None:
        profiles["p"] = ProfileResult(endpoints=(prefill,))
    return SchedulingResult(primary="decode", profiles=profiles, roles={"prefill": "p"})


def send(
    scorer: ExpectedWorkScorer, request: InferenceRequest, result: SchedulingResult
) -> InferenceRequest:
    scorer.pre_request(request, result)
    request.let_go_of_body()
    return request


def counted(endpoint: Endpoint) -> tuple[int, int, dict[str, int]]:
    work = endpoint.state.attributes.get(KEY, DispatchedWork())
    return work.waiting_tokens, work.requests, dict(work.adapters)


def end(scorer: ExpectedWorkScorer, request: InferenceRequest, endpoint: Endpoint) -> None:
    scorer.ended(request, response_of(), endpoint)


def test_a_request_waits_until_its_first_chunk_and_is_in_flight_until_its_end() -> None:
    scorer, [e1, e2, _] = scorer_of(), pool()
    request = prompted(1000)
    put(PREFIX_MATCH, request, {e1: PrefixMatch(10, 16, 64)})

    send(scorer, request, picked(e1))
    assert counted(e1) == (360, 1, {})
    scorer.first_chunk(request, response_of(), e1)
    assert counted(e1) == (0, 1, {})
    end(scorer, request, e1)

    assert counted(e1) == counted(e2) == (0, 0, {})


@pytest.mark.parametrize("cause", TerminationCause)
def test_without_a_first_chunk_the_end_takes_everything_back(cause: TerminationCause) -> None:
    scorer, [e1, *_] = scorer_of(), pool(places=4)
    request = send(scorer, prompted(1000, "a"), picked(e1))
    response = response_of(status=0)
    response.termination_cause = cause

    assert counted(e1) == (1000, 1, {"a": 1})
    scorer.ended(request, response, e1)
    scorer.ended(request, response, e1)

    assert counted(e1) == (0, 0, {})


def test_a_request_that_was_not_scheduled_counts_nowhere() -> None:
    scorer, [e1, *_] = scorer_of(), pool()
    request = request_of()

    scorer.response_header(request, response_of(), e1)
    scorer.first_chunk(request, response_of(), e1)
    end(scorer, request, e1)

    assert counted(e1) == (0, 0, {})


def test_the_endpoint_that_served_after_a_retry_is_the_one_that_counts() -> None:
    scorer, [e1, e2, _] = scorer_of(), pool(places=4)
    request = send(scorer, prompted(100, "a"), picked(e1))

    scorer.response_header(request, response_of(), e1)
    assert counted(e1) == (100, 1, {"a": 1})
    scorer.response_header(request, response_of(), e2)
    assert counted(e1) == (0, 0, {})
    assert counted(e2) == (100, 1, {"a": 1})
    scorer.first_chunk(request, response_of(), e2)
    end(scorer, request, e2)

    assert counted(e2) == (0, 0, {})


def test_a_response_without_a_known_endpoint_leaves_the_count_where_it_is() -> None:
    scorer, [e1, *_] = scorer_of(), pool()
    request = send(scorer, prompted(100), picked(e1))

    scorer.response_header(request, response_of(), None)

    assert counted(e1) == (100, 1, {})


def test_a_prefill_stage_is_done_with_the_first_chunk() -> None:
    scorer, [e1, e2, _] = scorer_of(), pool()
    request = send(scorer, prompted(100), picked(e1, prefill=e2))
    assert (counted(e1), counted(e2)) == ((100, 1, {}), (100, 1, {}))

    scorer.first_chunk(request, response_of(), e1)
    assert (counted(e1), counted(e2)) == ((0, 1, {}), (0, 0, {}))
    end(scorer, request, e1)

    assert counted(e1) == (0, 0, {})


def test_requests_of_one_burst_go_where_the_least_has_been_sent() -> None:
    scorer, endpoints = scorer_of(), pool(4)

    for _ in range(40):
        request = prompted(100)
        scores = scorer.score(request, endpoints)
        send(scorer, request, picked(endpoints[scores.index(max(scores))]))

    assert [counted(endpoint) for endpoint in endpoints] == [(1000, 10, {})] * 4


def test_counts_outlive_the_scorer_and_go_with_the_endpoint() -> None:
    scorer, [e1, *_] = scorer_of(), pool()
    request = send(scorer, prompted(1000), picked(e1))
    rebuilt = scorer_of()
    new_e1 = pool(1)[0]

    assert rebuilt.costs(prompted(100), [e1, new_e1]) == pytest.approx([1220, 100])
    end(scorer, request, e1)
    assert rebuilt.costs(prompted(100), [e1]) == pytest.approx([100])


def test_the_state_names_endpoints_that_live_the_busiest_first() -> None:
    scorer, [e1, e2, e3] = scorer_of(), pool(places=2)
    for endpoint, tokens in ((e1, 10), (e2, 30), (e3, 20)):
        send(scorer, prompted(tokens, "a"), picked(endpoint))

    e3.state.attributes.clear()
    state: Any = json.loads(json.dumps(scorer.dump_state()))

    assert state["totalEndpoints"] == 2
    assert [each["endpoint"] for each in state["endpoints"]] == [
        "default/e2-rank-0", "default/e1-rank-0",
    ]  # fmt: skip
    assert state["endpoints"][0] == {
        "endpoint": "default/e2-rank-0", "waitingTokens": 30, "requests": 1, "adapters": 1,
        "secondsPerPromptToken": 0.0, "secondsPerOutputToken": 0.0,
    }  # fmt: skip


def answer(
    scorer: ExpectedWorkScorer,
    clock: Clock,
    endpoint: Endpoint,
    *,
    seconds: float,
    writing: float = 1.0,
    tokens: int | None = 10,
    events: int = 0,
    model: str = "m",
    status: int = 200,
    streaming: bool = True,
    cause: TerminationCause = TerminationCause.NATURAL,
    retried: bool = False,
) -> tuple[float, float]:
    """What is known of the endpoint's pace after one more answer."""
    request = send(scorer, prompted(700, model), picked(endpoint))
    response = response_of(
        status, streaming=streaming, usage=Usage(completion_tokens=tokens) if tokens else None
    )
    response.streamed_events, response.termination_cause = events, cause
    served = endpoint_of("e9") if retried else endpoint
    scorer.response_header(request, response, served)
    clock.now += seconds
    scorer.first_chunk(request, response, served)
    clock.now += writing
    scorer.ended(request, response, served)
    pace = endpoint.state.attributes[KEY].pace
    return pace.prefill.value, pace.decode.value


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, (0.002, 0.1), id="per token of prompt and answer"),
        pytest.param({"tokens": None, "events": 20}, (0.002, 0.05), id="events for want of usage"),
        pytest.param({"tokens": 8}, (0.002, 0.0), id="short answer"),
        pytest.param({"cause": TerminationCause.ERROR}, (0.002, 0.0), id="broken off"),
        pytest.param({"status": 503}, (0.0, 0.0), id="error"),
        pytest.param({"streaming": False}, (0.0, 0.0), id="whole"),
        pytest.param({"retried": True}, (0.0, 0.0), id="served by another"),
    ],
)
def test_pace_is_learnt_from_answers_that_tell_it(
    changes: dict[str, Any], expected: tuple[float, float]
) -> None:
    clock = Clock()
    [e1] = pool(1)

    assert answer(scorer_of(clock), clock, e1, seconds=2.0, **changes) == pytest.approx(expected)


def test_the_wait_for_adapters_is_not_held_against_the_endpoint() -> None:
    clock = Clock()
    scorer, [e1] = scorer_of(clock), pool(1, places=4)
    loaded = answer(scorer, clock, e1, seconds=9.0, model="a")

    alone = answer(scorer, clock, e1, seconds=2.0, model="a")
    send(scorer, prompted(100, "b"), picked(e1))
    with_another = answer(scorer, clock, e1, seconds=9.0, model="a")

    assert loaded == (0.0, 0.0)
    assert with_another == alone == pytest.approx((0.002, 0.1))


def test_what_was_ahead_of_a_request_is_not_held_against_the_endpoint() -> None:
    clock = Clock()
    scorer, [e1] = scorer_of(clock), pool(1)
    send(scorer, prompted(1000), picked(e1))

    assert answer(scorer, clock, e1, seconds=2.0)[0] == pytest.approx(0.001)


def test_an_endpoint_that_takes_three_times_as_long_costs_three_times_as_much() -> None:
    clock = Clock()
    scorer, endpoints = scorer_of(clock), pool(3)

    for _ in range(20):
        for endpoint, seconds in zip(endpoints, (1.0, 1.1, 3.0), strict=True):
            answer(scorer, clock, endpoint, seconds=seconds)

    assert scorer.costs(prompted(100), endpoints) == pytest.approx([100, 100, 300 / 1.1])


@given(
    steps=st.lists(st.integers(0, 10**6), max_size=150),
    tokens=st.lists(st.integers(0, 3000), min_size=1, max_size=8),
)
def test_counts_are_what_is_under_way_and_return_to_zero(
    steps: list[int], tokens: list[int]
) -> None:
    scorer, endpoints = scorer_of(), pool(places=2)
    under_way: list[InferenceRequest] = []
    place: dict[InferenceRequest, Endpoint] = {}
    waiting: dict[InferenceRequest, int] = {}

    for step in steps:
        rng = random.Random(step)
        action = rng.choice(["send", "move", "first", "end"]) if under_way else "send"
        if action == "send":
            count = rng.choice(tokens)
            request = prompted(count, rng.choice("abc"))
            place[request] = rng.choice(endpoints)
            waiting[request] = max(1, count)
            under_way.append(send(scorer, request, picked(place[request])))
            continue
        request = rng.choice(under_way)
        if action == "move" and waiting[request]:
            place[request] = rng.choice(endpoints)
            scorer.response_header(request, response_of(), place[request])
        elif action == "first":
            waiting[request] = 0
            scorer.first_chunk(request, response_of(), place[request])
        elif action == "end":
            under_way.remove(request)
            end(scorer, request, place[request])
        for endpoint in endpoints:
            there = [each for each in under_way if place[each] is endpoint]
            assert counted(endpoint)[:2] == (sum(waiting[each] for each in there), len(there))

    for request in under_way:
        end(scorer, request, place[request])
    assert [counted(endpoint) for endpoint in endpoints] == [(0, 0, {})] * 3
