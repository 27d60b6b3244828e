"""Where load and learning go: to who served, and to each stage for as long as it works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from epp.app.request_path import RequestPathSettings
from epp.framework.data_types import InFlightLoad
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import ResponseBody, ResponseHeader, ResponseProgress
from epp.gateway.overload import OverloadLimits
from epp.observability.request_log import RequestRecord
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.hooks import Hooks
from epp.request_control.response_headers import ResponseSettings
from tests.fakes.clock import Clock
from tests.fakes.pickers.gateway_client import Answer, Exchange
from tests.fakes.pickers.picker import Picker, running_picker

ONE, TWO, THREE = "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"
PROMPT = b"once upon a time " * 100
BODY = b'{"model":"m","stream":true,"prompt":"%s"}' % PROMPT
SSE = {":status": "200", "content-type": "text/event-stream"}
PREFILLER = "x-prefiller-host-port"
ROLES = {
    ONE: {"llm-d.ai/role": "prefill"},
    TWO: {"llm-d.ai/role": "decode"},
}
LEARNING = """
plugins:
- {type: prefix-cache-scorer}
- {type: approx-prefix-cache-producer}
- {type: inflight-load-producer}
"""
LEAST_LOADED = "plugins: [{type: queue-scorer}]"


def staged(decider: str, handler: str = "") -> str:
    return f"""
plugins:
- {{type: {decider}}}
- type: disagg-profile-handler
  parameters: {{deciders: {{prefill: {decider}}}{handler}}}
- {{type: prefill-filter}}
- {{type: decode-filter}}
- {{type: queue-scorer}}
- {{type: inflight-load-producer}}
schedulingProfiles:
- name: prefill
  plugins: [{{pluginRef: prefill-filter}}, {{pluginRef: queue-scorer}}]
- name: decode
  plugins: [{{pluginRef: decode-filter}}, {{pluginRef: queue-scorer}}]
"""


ALWAYS = staged("always-disagg-pd-decider")
BY_PREFIX = staged("prefix-based-pd-decider")


def load(picker: Picker, address: str) -> tuple[int, int]:
    """Requests and tokens that the producer counts at an endpoint."""
    attributes = picker.endpoint(address).state.attributes
    counted = attributes.get("InFlightLoadDataKey/inflight-load-producer", InFlightLoad())
    assert isinstance(counted, InFlightLoad)
    return counted.requests, counted.tokens


async def head_of(exchange: Exchange, headers: Mapping[str, str] | None = None) -> Answer:
    await exchange.post(BODY, headers)
    head = await exchange.answer()
    if head.kind == "request_headers":
        await exchange.answer()
    return head


async def begin(exchange: Exchange, served: str | None = None) -> None:
    key = "x-gateway-destination-endpoint-served"
    await exchange.response_headers(SSE, metadata={"envoy.lb": {key: served}} if served else None)
    await exchange.answer()


async def piece(exchange: Exchange, *, end: bool = False) -> None:
    await exchange.response_body(b"data: {}\n\n", end=end)
    await exchange.answer()


async def test_load_and_prefix_belong_to_the_endpoint_that_served() -> None:
    async with running_picker((ONE, TWO), config=LEARNING) as picker:
        exchange = picker.exchange()
        first = (await head_of(exchange)).destination
        assert first is not None
        other = TWO if first == ONE else ONE
        requests, tokens = load(picker, first)
        assert requests == 1
        assert tokens > 0

        await begin(exchange, served=other)

        assert load(picker, first) == (0, 0)
        assert load(picker, other) == (1, tokens)
        await piece(exchange)
        assert load(picker, other) == (1, 0)
        await piece(exchange, end=True)
        assert load(picker, other) == (0, 0)
        assert picker.in_flight == {ONE: 0, TWO: 0}
        exchange.cancel()
        await picker.settled()
        assert await cached_at(picker, other)
        assert picker.faults == 0


async def cached_at(picker: Picker, address: str) -> bool:
    """Whether the prompt is believed to be cached at this endpoint."""
    exchange = picker.exchange()
    key = {"envoy.lb.subset_hint": {"x-gateway-destination-endpoint-subset": [address]}}
    await exchange.post(BODY, {"prefer": "if-available"}, metadata=key)
    answer = await exchange.answer()
    exchange.cancel()
    await picker.settled()
    return answer.kind == "request_headers"


async def test_a_prefix_is_learnt_for_the_pick_and_nobody_else() -> None:
    async with running_picker((ONE, TWO, THREE), config=LEARNING) as picker:
        exchange = picker.exchange()
        first = (await head_of(exchange)).destination
        await begin(exchange)
        await piece(exchange, end=True)
        exchange.cancel()
        await picker.settled()
        cached = [address for address in (ONE, TWO, THREE) if await cached_at(picker, address)]
        assert cached == [first]


@pytest.mark.parametrize("end", ["natural", "disconnect"])
async def test_prefill_is_released_at_the_first_piece_and_decode_at_the_end(end: str) -> None:
    async with running_picker((ONE, TWO), config=ALWAYS, labels=ROLES) as picker:
        exchange = picker.exchange()
        head = await head_of(exchange, {PREFILLER: "6.6.6.6:1"})
        assert head.destination == TWO
        assert head.set_headers[PREFILLER] == ONE.encode()
        assert PREFILLER not in head.remove_headers
        await begin(exchange)
        assert (load(picker, ONE)[0], load(picker, TWO)[0]) == (1, 1)

        await piece(exchange)

        assert (load(picker, ONE), load(picker, TWO)) == ((0, 0), (1, 0))
        if end == "natural":
            await piece(exchange, end=True)
        exchange.cancel()
        await picker.settled()
        assert (load(picker, ONE), load(picker, TWO)) == ((0, 0), (0, 0))
        assert picker.faults == 0


async def test_a_disaggregated_request_that_never_gets_a_piece_releases_both_stages() -> None:
    async with running_picker((ONE, TWO), config=ALWAYS, labels=ROLES) as picker:
        exchange = picker.exchange()
        await head_of(exchange)
        assert (load(picker, ONE)[0], load(picker, TWO)[0]) == (1, 1)
        exchange.cancel()
        await picker.settled()
        assert (load(picker, ONE), load(picker, TWO)) == ((0, 0), (0, 0))


async def test_a_required_stage_without_endpoint_is_503() -> None:
    async with running_picker((TWO,), config=ALWAYS, labels=ROLES) as picker:
        answer = await head_of(picker.exchange())
        assert (answer.status, answer.details) == (503, "epp_rejected_no_endpoints")
        assert answer.set_headers["x-llm-d-request-dropped-reason"] == b"rejected-no-endpoints"
        await picker.settled()


@pytest.mark.parametrize(
    "config",
    [BY_PREFIX, staged("always-disagg-pd-decider", ", allowDecodeOnly: true")],
    ids=["not wanted", "allowed"],
)
async def test_decode_alone_serves_what_needs_no_prefill(config: str) -> None:
    async with running_picker((TWO,), config=config, labels=ROLES) as picker:
        exchange = picker.exchange()
        head = await head_of(exchange, {PREFILLER: "6.6.6.6:1"})
        assert head.destination == TWO
        assert PREFILLER not in head.set_headers
        assert PREFILLER in head.remove_headers
        exchange.cancel()
        await picker.settled()
        assert picker.faults == 0


RANKS = """
plugins:
- {type: data-parallel-profile-handler, parameters: {primaryPort: 8000}}
- {type: prefix-cache-scorer}
- {type: queue-scorer}
"""
RANK_PORTS = (8000, 8001, 8002)


async def test_a_rank_behind_a_sidecar_keeps_load_cache_and_reasons() -> None:
    settings = RequestPathSettings(
        director=DirectorSettings(emit_endpoint_scores=True),
        response=ResponseSettings(decision_header=True),
        overload=OverloadLimits(),
    )
    async with running_picker(
        ("10.0.0.1",), config=RANKS, target_ports=RANK_PORTS, settings=settings
    ) as picker:
        for port in (8000, 8002):
            picker.report(f"10.0.0.1:{port}", waiting=5)
        rank = "10.0.0.1:8001"
        first = picker.exchange()
        head = await head_of(first, {"x-data-parallel-host-port": "6.6.6.6:1"})
        assert head.destination == ONE
        assert head.set_headers["x-data-parallel-host-port"] == rank.encode()
        assert picker.in_flight == {ONE: 0, rank: 1, "10.0.0.1:8002": 0}

        again = picker.exchange()
        assert (await head_of(again, {"prefer": "if-available"})).destination == ONE

        await begin(again, served=ONE)
        await piece(again, end=True)
        first.cancel()
        again.cancel()
        await picker.settled()
        assert all("best of 3 endpoints: " in reason for reason in reasons(picker.records.all))


async def test_of_two_ranks_behind_sidecars_the_one_that_served_gets_the_credit() -> None:
    two = "{type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}"
    async with running_picker(
        ("10.0.0.1", "10.0.0.2"), config=f"{RANKS}- {two}", target_ports=RANK_PORTS
    ) as picker:
        for endpoint in picker.in_flight:
            picker.report(endpoint, waiting=5 - endpoint.endswith(":8001"))
        exchange = picker.exchange()
        destinations = str((await head_of(exchange)).destination).split(",")
        assert sorted(destinations) == [ONE, TWO]
        await begin(exchange, served=destinations[1])
        served = destinations[1].replace(":8000", ":8001")
        assert {address for address, count in picker.in_flight.items() if count} == {served}
        exchange.cancel()
        await picker.settled()


async def request_to(
    picker: Picker, statuses: Mapping[str, str], retried_at: str | None = None
) -> str:
    """One request, which the gateway may send elsewhere after all; gives the pick."""
    exchange = picker.exchange()
    destination = (await head_of(exchange)).destination
    assert destination is not None
    key = "x-gateway-destination-endpoint-served"
    served = retried_at or destination
    await exchange.response_headers(
        {":status": statuses.get(served, "200")}, end=True, metadata={"envoy.lb": {key: served}}
    )
    await exchange.answer()
    await exchange.half_close()
    await picker.settled()
    return destination


async def test_an_endpoint_whose_probe_was_retried_elsewhere_is_probed_again() -> None:
    clock = Clock()
    async with running_picker((ONE, TWO), config=LEAST_LOADED, now=clock) as picker:
        while picker.metric("epp_ejected_endpoints") == 0:
            await request_to(picker, {ONE: "503"})
        clock.now += 10
        picker.report(TWO, waiting=9)

        probed = [await request_to(picker, {}, retried_at=TWO) for _ in range(3)]

        assert probed == [ONE] * 3


async def test_errors_are_those_of_the_endpoint_that_answered_with_them() -> None:
    async with running_picker((ONE, TWO), config=LEAST_LOADED) as picker:
        picker.report(TWO, waiting=9)

        picked = [await request_to(picker, {TWO: "503"}, retried_at=TWO) for _ in range(5)]

        assert picked == [ONE] * 5
        outliers = picker.path.outliers
        assert not outliers.is_ejected(picker.endpoint(ONE))
        assert outliers.is_ejected(picker.endpoint(TWO))


class Witness(ResponseHeader, ResponseProgress, ResponseBody):
    """Notes which endpoint it is told of."""

    type = "witness"

    def __init__(self) -> None:
        self.told: dict[str, set[str]] = {}

    def note(self, point: str, endpoint: Endpoint | None) -> None:
        assert endpoint is not None
        self.told.setdefault(point, set()).add(endpoint.address)

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        self.note("headers", endpoint)

    def first_chunk(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.note("first chunk", endpoint)

    def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.note("body", endpoint)

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.note("end", endpoint)


async def test_whoever_follows_a_response_is_told_of_the_endpoint_that_served() -> None:
    witness = Witness()
    hooks = Hooks(
        response_header=(witness,), response_progress=(witness,), response_body=(witness,)
    )
    async with running_picker((ONE, TWO), hooks=hooks) as picker:
        exchange = picker.exchange()
        first = (await head_of(exchange)).destination
        other = TWO if first == ONE else ONE
        await begin(exchange, served=other)
        await piece(exchange)
        await piece(exchange, end=True)
        exchange.cancel()
        await picker.settled()

    points = ("headers", "first chunk", "body", "end")
    assert witness.told == {point: {other} for point in points}


def reasons(records: list[Any]) -> list[str]:
    assert records
    assert all(isinstance(record, RequestRecord) for record in records)
    return [record.reason for record in records]
