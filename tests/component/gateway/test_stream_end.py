"""Every way a stream can end: exactly one end per request, nothing left behind (protocol §2.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest, InferenceResponse, TerminationCause
from epp.framework.request_control import DataProducer, ResponseBody
from epp.request_control.hooks import Hooks
from tests.fakes.eventually import eventually
from tests.fakes.pickers.gateway_client import COMPLETIONS, Exchange
from tests.fakes.pickers.picker import Picker, pods, pool, running_picker

BODY = b'{"model":"m","prompt":"a"}'
SSE = {":status": "200", "content-type": "text/event-stream"}


def ends(picker: Picker) -> dict[str, float]:
    return {
        cause: picker.metric("epp_request_terminations_total", cause=cause)
        for cause in TerminationCause
        if picker.metric("epp_request_terminations_total", cause=cause)
    }


async def test_a_disconnect_mid_response_ends_the_request_once(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.picked()
    assert picker.metric("llm_d_epp_request_running", model_name="m") == 1
    await exchange.response_headers(SSE)
    await exchange.response_body(b"data: {}\n\n")
    await exchange.answers(2)
    exchange.cancel()
    await picker.settled()
    assert ends(picker) == {"client-disconnect": 1}
    assert picker.metric("llm_d_epp_request_running", model_name="m") == 0
    assert picker.metric("llm_d_epp_request_duration_seconds_count") == 0


class Waiting(DataProducer):
    """Waits until the test lets it go."""

    type = "waiting"
    timeout_seconds = 60.0

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.was_cancelled = False

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self.entered.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


async def pending(picker: Picker, producer: Waiting, **modes: str | None) -> Exchange:
    exchange = picker.exchange(**modes)
    await exchange.post(BODY)
    async with asyncio.timeout(5):
        await producer.entered.wait()
    return exchange


async def test_a_disconnect_while_deciding_cancels_the_decision() -> None:
    producer = Waiting()
    async with running_picker(hooks=Hooks(data_producer=(producer,))) as picker:
        exchange = await pending(picker, producer)
        exchange.cancel()
        await picker.settled()
        await eventually(lambda: producer.was_cancelled)
        assert ends(picker) == {}


async def test_a_response_before_the_decision_means_the_request_is_over() -> None:
    producer = Waiting()
    async with running_picker(hooks=Hooks(data_producer=(producer,))) as picker:
        exchange = await pending(picker, producer)
        await exchange.response_headers({":status": "504"})
        assert (await exchange.answer()).kind == "response_headers"
        await exchange.response_body(b"late", end=True)
        answer = await exchange.answer()
        assert (answer.kind, answer.body, answer.end) == ("response_body", b"late", True)
        await eventually(lambda: producer.was_cancelled)
        await exchange.request_body(b"rest", end=True)
        await exchange.half_close()
        assert (await exchange.status()).name == "OK"
        await picker.settled()


async def test_a_response_before_the_body_is_complete_means_the_request_is_over(
    picker: Picker,
) -> None:
    exchange = picker.exchange()
    await exchange.request_headers()
    await exchange.request_body(BODY)
    await exchange.response_headers({":status": "413"})
    assert (await exchange.answer()).kind == "response_headers"
    await exchange.request_body(b"", end=True)
    await exchange.request_trailers()
    await exchange.response_body(b"too large", end=True)
    assert (await exchange.answer()).kind == "response_body"
    await exchange.half_close()
    assert (await exchange.status()).name == "OK"


async def test_messages_that_come_while_deciding_are_answered_in_order_afterwards() -> None:
    producer = Waiting()
    async with running_picker(hooks=Hooks(data_producer=(producer,))) as picker:
        exchange = await pending(picker, producer)
        await exchange.request_body(BODY, end=True)
        await exchange.request_trailers()
        producer.go.set()
        kinds = [answer.kind for answer in await exchange.answers(3)]
        assert kinds == ["request_headers", "request_body", "request_trailers"]
        exchange.cancel()
        await picker.settled()


async def test_streamed_bodies_that_come_while_deciding_are_owed() -> None:
    producer = Waiting()
    async with running_picker(hooks=Hooks(data_producer=(producer,))) as picker:
        exchange = await pending(picker, producer, request_mode="STREAMED")
        await exchange.request_body(b"more", end=True)
        producer.go.set()
        kinds = [answer.kind for answer in await exchange.answers(3)]
        assert kinds == ["request_headers", "request_body", "request_body"]
        exchange.cancel()
        await picker.settled()


LEAVING = pytest.mark.parametrize(
    ("mode", "cause"),
    [(None, "natural"), ("FULL_DUPLEX_STREAMED", "client-disconnect")],
    ids=["a gateway that asks for the pick alone", "one that shows responses"],
)


@LEAVING
async def test_a_half_close_before_the_answer_waits_for_it(mode: str | None, cause: str) -> None:
    producer = Waiting()
    async with running_picker(hooks=Hooks(data_producer=(producer,))) as picker:
        exchange = await pending(picker, producer, request_mode=mode)
        await exchange.half_close()
        producer.go.set()
        assert await exchange.picked() == "10.0.0.1:8000"
        assert (await exchange.status()).name == "OK"
        assert ends(picker) == {cause: 1}
        await picker.settled()


@LEAVING
async def test_a_half_close_right_after_the_body_gets_answer_and_ok(
    picker: Picker, mode: str | None, cause: str
) -> None:
    exchange = picker.exchange(request_mode=mode)
    await exchange.post(BODY)
    await exchange.half_close()
    assert await exchange.picked() == "10.0.0.1:8000"
    assert (await exchange.status()).name == "OK"
    assert ends(picker) == {cause: 1}


async def test_a_half_close_within_the_body_is_a_disconnect(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.request_headers()
    await exchange.request_body(b"{")
    await exchange.half_close()
    assert (await exchange.status()).name == "CANCELLED"


async def test_a_half_close_within_the_response_is_a_disconnect(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.picked()
    await exchange.response_headers(SSE)
    await exchange.answer()
    await exchange.half_close()
    assert (await exchange.status()).name == "OK"
    assert ends(picker) == {"client-disconnect": 1}


async def test_a_half_close_after_the_response_is_ok(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.picked()
    await exchange.response_headers(SSE)
    await exchange.response_body(b"", end=True)
    await exchange.answers(2)
    await exchange.half_close()
    assert (await exchange.status()).name == "OK"
    assert ends(picker) == {"natural": 1}


async def test_a_second_request_headers_message_is_invalid(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.picked()
    await exchange.request_headers()
    assert (await exchange.status()).name == "INVALID_ARGUMENT"
    assert await exchange.status_message() == "a second request_headers message on one stream"
    assert ends(picker) == {"error": 1}


async def test_what_the_gateway_does_against_the_protocol_is_in_the_log_once(
    picker: Picker,
) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            exchange = picker.exchange()
            await exchange.post(BODY)
            await exchange.picked()
            await exchange.request_headers()
            await exchange.status()

    assert [(line["event"], line["request_id"]) for line in logs] == [
        (
            "the gateway broke the protocol: a second request_headers message on one stream",
            COMPLETIONS["x-request-id"],
        )
    ]


@pytest.mark.parametrize("junk", [b"\xff\xff\xff", b"", b"\x1a\x02\x08"])
async def test_bytes_that_are_no_message_disturb_no_other_stream(
    picker: Picker, junk: bytes
) -> None:
    neighbour, exchange = picker.exchange(), picker.exchange()
    await neighbour.request_headers()
    await exchange.send_bytes(junk)
    assert (await exchange.status()).name == "INVALID_ARGUMENT"
    await neighbour.request_body(BODY, end=True)
    assert await neighbour.picked() == "10.0.0.1:8000"
    neighbour.cancel()


class Seen(ResponseBody):
    type = "seen"

    def __init__(self) -> None:
        self.ends: list[str] = []

    def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        if response.ended:
            self.ends.append(str(response.termination_cause))


async def test_a_hundred_requests_aborted_in_every_phase_end_a_hundred_times() -> None:
    seen = Seen()
    async with running_picker(
        ("10.0.0.1:8000", "10.0.0.2:8000"), hooks=Hooks(response_body=(seen,))
    ) as picker:
        for number in range(100):
            exchange = picker.exchange()
            await exchange.post(BODY)
            await exchange.picked()
            if number % 4 >= 1:
                await exchange.response_headers(SSE)
                await exchange.answer()
            if number % 4 >= 2:
                await exchange.response_body(b"data: {}\n\n")
                await exchange.answer()
            if number % 4 == 3:
                await exchange.response_body(b"", end=True)
                await exchange.answer()
                await exchange.half_close()
                assert (await exchange.status()).name == "OK"
            else:
                exchange.cancel()
        await picker.settled()
        await eventually(lambda: len(seen.ends) >= 100)
        assert len(seen.ends) == 100
        assert ends(picker) == {"natural": 25, "client-disconnect": 75}
        assert picker.metric("llm_d_epp_request_running", model_name="m") == 0
        assert picker.metric("epp_requests_in_flight") == 0


async def test_a_pod_that_leaves_while_serving_is_counted_down_all_the_same(
    picker: Picker,
) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.picked()
    left = picker.endpoint("10.0.0.1:8000")
    picker.datastore.set_pods([])
    exchange.cancel()
    await eventually(lambda: left.load.in_flight == 0)


async def test_forty_requests_at_once_spread_over_four_endpoints() -> None:
    addresses = [f"10.0.0.{number}:8000" for number in range(1, 5)]
    async with running_picker(addresses) as picker:
        exchanges = [picker.exchange() for _ in range(40)]
        for exchange in exchanges:
            await exchange.post(BODY)
        for exchange in exchanges:
            await exchange.picked()
        assert set(picker.in_flight.values()) == {10}
        for exchange in exchanges:
            exchange.cancel()
        await picker.settled()


async def test_one_request_id_on_two_streams_is_two_requests(two_endpoints: Picker) -> None:
    first, second = two_endpoints.exchange(), two_endpoints.exchange()
    for exchange in (first, second):
        await exchange.post(BODY)
        await exchange.picked()
    assert sorted(two_endpoints.in_flight.values()) == [1, 1]
    first.cancel()
    await eventually(lambda: sorted(two_endpoints.in_flight.values()) == [0, 1])
    second.cancel()


async def test_what_is_left_at_the_end_of_the_grace_is_visibly_cut(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.picked()
    picker.path.processor.abort_all()
    assert (await exchange.status()).name == "UNAVAILABLE"
    assert ends(picker) == {"error": 1}


async def test_a_pool_that_becomes_ready_serves_the_next_request() -> None:
    async with running_picker(()) as picker:
        exchange = picker.exchange()
        await exchange.request_headers(COMPLETIONS, end=True)
        assert (await exchange.answer()).status == 503
        picker.datastore.set_pool(pool())
        picker.datastore.set_pods(pods(["10.0.0.1:8000"]))
        exchange = picker.exchange()
        await exchange.request_headers(COMPLETIONS, end=True)
        assert (await exchange.answer()).destination == "10.0.0.1:8000"
        exchange.cancel()
        await picker.settled()
