"""Counting of what is in flight: what is added, what is taken back, and when."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data import Input, Output
from epp.framework.data_types import (
    IN_FLIGHT_LOAD,
    PREFIX_MATCH,
    TOKENIZED_PROMPT,
    UNCACHED_REQUEST_TOKENS,
    InFlightLoad,
    PrefixMatch,
    Prompt,
    TokenizedPrompt,
)
from epp.framework.endpoint import Endpoint
from epp.framework.headers import Headers
from epp.framework.parsed_request import ParsedRequest
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.producers.inflight_load import InflightLoadProducer, uncached_tokens
from epp.plugins.producers.inflight_series import InflightSeries
from epp.testing import FakeContext, built, endpoint_of, put, request_of

RESPONSE = InferenceResponse(headers=Headers(), status=200, streaming=True)


def pool(count: int = 3) -> list[Endpoint]:
    return [endpoint_of(f"e{number}") for number in range(1, count + 1)]


def prompted(tokens: int, *, max_output: int | None = None) -> InferenceRequest:
    parsed = ParsedRequest(api="completions", max_output_tokens=max_output)
    request = request_of(parsed=parsed)
    prompt = TokenizedPrompt((Prompt(bytes(4 * tokens)),))
    Output(TOKENIZED_PROMPT, "token-producer").put(request, prompt)
    return request


def picked(
    endpoint: Endpoint, *, prefill: Endpoint | None = None, role: str = "prefill"
) -> SchedulingResult:
    profiles = {"decode": ProfileResult(endpoints=(endpoint, *pool()))}
    if prefill is not None:
        profiles[role] = ProfileResult(endpoints=(prefill,))
    return SchedulingResult(primary="decode", profiles=profiles, roles={"prefill": role})


def load_of(endpoint: Endpoint, producer: str = "inflight-load-producer") -> tuple[int, int]:
    loads = Input(IN_FLIGHT_LOAD)
    loads.bind(producer)
    load = loads.on(endpoint) or InFlightLoad()
    return load.requests, load.tokens


def added(request: InferenceRequest, endpoints: list[Endpoint]) -> list[int | None]:
    tokens = Input(UNCACHED_REQUEST_TOKENS)
    tokens.bind("inflight-load-producer")
    return tokens.values(request, endpoints)


def send(
    producer: InflightLoadProducer,
    request: InferenceRequest,
    result: SchedulingResult,
    endpoints: list[Endpoint],
) -> None:
    producer.produce(request, endpoints)
    producer.pre_request(request, result)
    request.let_go_of_body()


@pytest.mark.parametrize(
    ("tokens", "match", "total", "expected"),
    [
        pytest.param(1000, 4, 16, 768, id="G32"),
        pytest.param(140000, 100, 2048, 133600, id="G32 beyond the index"),
        pytest.param(100, 0, 2, 128, id="G32 partial block"),
    ],
)
def test_cached_blocks_are_not_counted(tokens: int, match: int, total: int, expected: int) -> None:
    [e1] = pool(1)
    producer, request = built(InflightLoadProducer), prompted(tokens)
    put(PREFIX_MATCH, request, {e1: PrefixMatch(match, total, 64)})

    send(producer, request, picked(e1), [e1])

    assert added(request, [e1]) == [expected]
    assert load_of(e1) == (1, expected)


def test_without_a_match_all_tokens_are_uncached() -> None:
    assert uncached_tokens(100, None) == 100
    assert uncached_tokens(100, PrefixMatch(0, 0, 0)) == 100
    assert uncached_tokens(0, PrefixMatch(9, 4, 64)) == 0


@pytest.mark.parametrize(
    ("ratio", "limit", "asked", "expected"),
    [
        pytest.param(1.5, None, None, 101 + 152, id="rounded"),
        pytest.param(1.5, None, 50, 151, id="asked"),
        pytest.param(1.5, 30, 50, 131, id="limit"),
        pytest.param(1.5, 90, 50, 151, id="asked below limit"),
        pytest.param(0.0, None, None, 101, id="no ratio"),
        pytest.param(1.5, None, -1, 101, id="asked for less than nothing"),
    ],
)
def test_output_is_estimated_from_the_prompt_and_capped(
    ratio: float, limit: int | None, asked: int | None, expected: int
) -> None:
    [e1] = pool(1)
    producer = built(
        InflightLoadProducer,
        add_estimated_output_tokens=True,
        output_ratio=ratio,
        max_estimated_output_tokens=limit,
    )
    request = prompted(101, max_output=asked)

    send(producer, request, picked(e1), [e1])

    assert added(request, [e1]) == [expected]
    assert load_of(e1) == (1, expected)


def test_every_profile_counts_its_first_endpoint() -> None:
    e1, e2, _e3 = endpoints = pool()
    producer, request = built(InflightLoadProducer), prompted(100)
    put(PREFIX_MATCH, request, {e1: PrefixMatch(1, 2, 64)})

    send(producer, request, picked(e1, prefill=e2), endpoints)

    assert [load_of(e) for e in endpoints] == [(1, 64), (1, 100), (0, 0)]


@pytest.mark.parametrize("role", ["prefill", "another-name"])
def test_prefill_is_done_with_the_first_chunk_decode_at_the_end(role: str) -> None:
    e1, e2, _e3 = endpoints = pool()
    producer, request = built(InflightLoadProducer), prompted(100)
    send(producer, request, picked(e1, prefill=e2, role=role), endpoints)

    producer.first_chunk(request, RESPONSE, e1)
    assert [load_of(e) for e in endpoints] == [(1, 0), (0, 0), (0, 0)]

    producer.ended(request, RESPONSE, e1)
    assert [load_of(e) for e in endpoints] == [(0, 0)] * 3


def test_tokens_stay_until_the_end_when_output_is_estimated() -> None:
    e1, e2, _e3 = endpoints = pool()
    producer = built(InflightLoadProducer, add_estimated_output_tokens=True)
    request = prompted(100)
    send(producer, request, picked(e1, prefill=e2), endpoints)

    producer.first_chunk(request, RESPONSE, e1)
    assert [load_of(e) for e in endpoints] == [(1, 250), (0, 0), (0, 0)]

    producer.ended(request, RESPONSE, e1)
    assert load_of(e1) == (0, 0)


def test_the_endpoint_that_served_after_a_retry_takes_the_count_over() -> None:
    e1, e2, e3 = endpoints = pool()
    producer, request = built(InflightLoadProducer), prompted(100)
    send(producer, request, picked(e1, prefill=e3), endpoints)

    producer.response_header(request, RESPONSE, e2)
    assert [load_of(e) for e in endpoints] == [(0, 0), (1, 100), (1, 100)]

    producer.ended(request, RESPONSE, e2)
    assert [load_of(e) for e in endpoints] == [(0, 0)] * 3


def test_the_load_is_live_and_there_before_the_first_request() -> None:
    [e1] = pool(1)
    producer = built(InflightLoadProducer)
    producer.endpoint_added(e1)
    loads = Input(IN_FLIGHT_LOAD)
    loads.bind("inflight-load-producer")
    load = loads.of(request_of(), e1)
    assert load is not None

    send(producer, prompted(10), picked(e1), [e1])

    assert (load.requests, load.tokens) == (1, 10)


def test_requests_to_an_endpoint_that_is_gone_touch_nobody_else() -> None:
    [gone], [heir] = pool(1), pool(1)
    producer, request = built(InflightLoadProducer), prompted(100)
    send(producer, request, picked(gone), [gone])
    producer.endpoint_removed(gone)
    producer.endpoint_added(heir)

    producer.ended(request, RESPONSE, gone)

    assert load_of(heir) == (0, 0)


def test_a_producer_that_is_built_again_goes_on_with_what_is_in_flight() -> None:
    [e1] = pool(1)
    before, request = built(InflightLoadProducer), prompted(100)
    send(before, request, picked(e1), [e1])

    after = built(InflightLoadProducer)
    after.endpoint_added(e1)
    assert load_of(e1) == (1, 100)
    before.ended(request, RESPONSE, e1)

    assert load_of(e1) == (0, 0)


def test_requests_that_were_not_counted_take_nothing_back() -> None:
    [e1] = pool(1)
    producer, request = built(InflightLoadProducer), request_of()
    producer.endpoint_added(e1)

    producer.response_header(request, RESPONSE, e1)
    producer.first_chunk(request, RESPONSE, e1)
    producer.ended(request, RESPONSE, e1)

    assert load_of(e1) == (0, 0)


def test_an_endpoint_that_was_no_candidate_is_counted_with_all_tokens() -> None:
    e1, e2, _ = pool()
    producer, request = built(InflightLoadProducer), prompted(100)

    send(producer, request, picked(e2), [e1])

    assert load_of(e2) == (1, 100)


def test_a_rank_behind_another_port_is_counted_with_its_uncached_tokens() -> None:
    e1, e2, _ = pool()
    producer, request = built(InflightLoadProducer), prompted(128)
    put(PREFIX_MATCH, request, {e1: PrefixMatch(1, 2, 64)})
    moved = replace(e1, port=9000, address="10.0.0.1:9000")

    profile = ProfileResult(endpoints=(moved,), candidates=(e2, e1))
    send(producer, request, SchedulingResult(primary="p", profiles={"p": profile}), [e2, e1])

    assert load_of(e1) == (1, 64)


def test_simultaneous_requests_see_one_another() -> None:
    endpoints = pool(4)
    producer = built(InflightLoadProducer)

    for _ in range(40):
        target = min(endpoints, key=lambda endpoint: load_of(endpoint)[0])
        send(producer, prompted(10), picked(target), endpoints)

    assert [load_of(endpoint) for endpoint in endpoints] == [(10, 100)] * 4


def test_gauges_have_a_series_while_something_is_in_flight() -> None:
    [e1] = pool(1)
    context = FakeContext("inflight-load-producer", "mine")
    producer, request = built(InflightLoadProducer, context), prompted(100)
    request.fairness_id, request.priority = "team-a", -1
    labels = ("e1-rank-0", "default", "mine", "team-a", "-1")

    send(producer, request, picked(e1), [e1])
    assert context.series("llm_d_epp_inflight_requests")[labels].value == 1
    assert context.series("llm_d_epp_inflight_tokens")[labels].value == 100
    assert producer.dump_state() == {
        "totalEndpoints": 1,
        "endpoints": [{"endpoint": "default/e1-rank-0", "requests": 1, "tokens": 100}],
    }

    producer.ended(request, RESPONSE, e1)
    assert context.series("llm_d_epp_inflight_requests") == {}
    assert context.series("llm_d_epp_inflight_tokens") == {}


def test_series_are_bounded_whatever_the_fairness_ids() -> None:
    [e1] = pool(1)
    series = InflightSeries("mine", max_series=5)
    counted = []

    for number in range(20):
        request = request_of()
        request.fairness_id = "x" * 1000 if number == 0 else f"id-{number}"
        counted.append(series.labels(request, e1))
        series.add(counted[-1], 1, 10)

    assert counted[0][3] == "other"
    assert len(series.requests()) == 6
    assert sum(series.requests().values()) == 20
    for labels in counted:
        series.add(labels, -1, -10)
    assert series.requests() == series.tokens() == {}


@given(st.integers(0, 2**32), st.booleans())
def test_counts_return_to_zero_whatever_the_order_of_events(seed: int, output: bool) -> None:
    rng = random.Random(seed)
    endpoints = pool()
    producer = built(InflightLoadProducer, add_estimated_output_tokens=output)
    requests = []
    for _ in range(5):
        request = prompted(rng.randrange(1000))
        match = {e: PrefixMatch(rng.randrange(9), 8, 64) for e in rng.sample(endpoints, 2)}
        put(PREFIX_MATCH, request, match)
        prefill = rng.choice([None, *endpoints])
        send(producer, request, picked(rng.choice(endpoints), prefill=prefill), endpoints)
        requests.append(request)
    calls = [producer.first_chunk, producer.response_header, producer.ended] * 3
    events = [(call, request) for request in requests for call in rng.sample(calls, 5)]
    rng.shuffle(events)

    for call, request in events:
        call(request, RESPONSE, rng.choice(endpoints))
        assert all(min(load_of(endpoint)) >= 0 for endpoint in endpoints)
    for request in requests:
        producer.ended(request, RESPONSE, endpoints[0])

    assert [load_of(endpoint) for endpoint in endpoints] == [(0, 0)] * 3
    assert producer.dump_state() == {"totalEndpoints": 0, "endpoints": []}
