"""Another configuration comes into force while requests are under way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import (
    DataProducer,
    PreRequest,
    ResponseBody,
    ResponseHeader,
    ResponseProgress,
)
from epp.framework.scheduling_results import SchedulingResult
from tests.fakes.eventually import eventually
from tests.fakes.pickers.gateway_client import Exchange
from tests.fakes.pickers.picker import Picker, running_picker

BODY = b'{"model":"m","stream":true,"prompt":"once upon a time"}'
ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"
SSE = {":status": "200", "content-type": "text/event-stream"}


class WitnessParameters(Parameters):
    """Tells one configuration from the next."""

    generation: int


class Witness(PreRequest, ResponseHeader, ResponseBody, ResponseProgress):
    """Counts what it sees of requests."""

    type = "witness"

    def __init__(self, parameters: WitnessParameters) -> None:
        self.saw: Counter[str] = Counter()

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        self.saw["pick"] += 1

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        self.saw["headers"] += 1

    def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.saw["last body"] += response.ended

    def first_chunk(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.saw["first chunk"] += 1

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.saw["end"] += 1


class Gate(DataProducer):
    """Holds decisions up until it is opened."""

    type = "gate"
    timeout_seconds = 30

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = 0

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self.waiting += 1
        await self.open.wait()


OWN = (Witness, Gate)


def generation(number: int, more: str = "") -> str:
    """Everything of it is new, the way a changed parameter makes it."""
    return f"""
plugins:
- {{type: queue-scorer}}
- {{type: witness, parameters: {{generation: {number}}}}}
- {{type: inflight-load-producer, parameters: {{outputRatio: {number}}}}}
- {{type: approx-prefix-cache-producer, parameters: {{lruCapacityPerServer: {1000 + number}}}}}
{more}
"""


WHOLE = {"pick": 1, "headers": 1, "first chunk": 1, "last body": 1, "end": 1}


async def opened(picker: Picker) -> Exchange:
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.picked()
    return exchange


async def respond(exchange: Exchange) -> None:
    await exchange.response_headers(SSE)
    await exchange.answer()
    for end in (False, True):
        await exchange.response_body(b"data: {}\n\n", end=end)
        await exchange.answer()
    await exchange.half_close()
    assert (await exchange.status()).name == "OK"


def load_of(picker: Picker) -> float:
    return sum(
        picker.metric("llm_d_epp_inflight_requests", endpoint_name=endpoint.name)
        for endpoint in picker.datastore.snapshot().endpoints
    )


async def test_requests_under_way_end_with_the_plugins_that_saw_them_begin() -> None:
    async with running_picker((ONE, TWO), config=generation(1), own_plugins=OWN) as picker:
        old = picker.plugin("witness", Witness)
        before = await opened(picker)
        streaming = await opened(picker)
        await streaming.response_headers(SSE)
        await streaming.answer()
        await streaming.response_body(b"data: {}\n\n")
        await streaming.answer()

        picker.reconfigure(generation(2))

        new = picker.plugin("witness", Witness)
        assert new is not old
        after = await opened(picker)
        assert sum(picker.in_flight.values()) == 3
        for exchange in (before, after):
            await respond(exchange)
        await streaming.response_body(b"", end=True)
        await streaming.answer()
        await streaming.half_close()
        await picker.settled()
        twice = {name: 2 * count for name, count in WHOLE.items()}
        await eventually(lambda: old.saw == twice)
        await eventually(lambda: new.saw == WHOLE)
        assert picker.faults == 0


async def test_counts_in_flight_return_to_zero_through_many_swaps() -> None:
    async with running_picker((ONE, TWO), config=generation(0), own_plugins=OWN) as picker:
        exchanges = []
        witnesses = []
        for number in range(5):
            picker.reconfigure(generation(number))
            witnesses.append(picker.plugin("witness", Witness))
            exchanges += [await opened(picker) for _ in range(4)]
        loads = [
            value
            for endpoint in picker.datastore.snapshot().endpoints
            for key, value in endpoint.state.attributes.items()
            if key.startswith("InFlightLoadDataKey/")
        ]
        assert sum(load.requests for load in loads) == 20
        assert load_of(picker) > 0
        for index, exchange in enumerate(exchanges):
            if index % 2:
                exchange.cancel()
            else:
                await respond(exchange)
        await picker.settled()
        assert [(load.requests, load.tokens) for load in loads] == [(0, 0)] * 2
        assert load_of(picker) == 0
        for witness in witnesses:
            await eventually(lambda witness=witness: witness.saw["last body"] == 4)  # type: ignore[misc] # bound at once
            assert (witness.saw["pick"], witness.saw["end"]) == (4, 4)
        assert picker.faults == 0


async def test_a_decision_that_waits_goes_on_by_the_plan_it_began_with() -> None:
    config = generation(1, "- {type: gate}")
    async with running_picker((ONE, TWO), config=config, own_plugins=OWN) as picker:
        old, gate = picker.plugin("witness", Witness), picker.plugin("gate", Gate)
        waiting = picker.exchange()
        await waiting.post(BODY)
        await eventually(lambda: gate.waiting == 1)

        picker.reconfigure(generation(2))

        new = picker.plugin("witness", Witness)
        at_once = await opened(picker)
        gate.open.set()
        await waiting.picked()
        for exchange in (waiting, at_once):
            await respond(exchange)
        await picker.settled()
        for witness in (old, new):
            await eventually(lambda witness=witness: witness.saw == WHOLE)  # type: ignore[misc] # bound at once


async def test_what_plugins_have_learnt_stays_with_those_that_did_not_change() -> None:
    same = "plugins: [{type: prefix-cache-scorer}, {type: approx-prefix-cache-producer}%s]"
    body = b'{"model":"m","prompt":"%s"}' % (b"once upon a time " * 100)
    async with running_picker((ONE, TWO), config=same % "") as picker:
        first = picker.exchange()
        await first.post(body)
        destination = await first.picked()

        picker.reconfigure(same % ", {type: queue-scorer}")

        again = picker.exchange()
        await again.post(body, {"prefer": "if-available"})
        assert await again.picked() == destination
        first.cancel()
        again.cancel()
        await picker.settled()
