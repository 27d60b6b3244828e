"""Answers follow the gateway's processing mode (protocol §2.8, decision 28)."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.fakes.pickers.gateway_client import COMPLETIONS, Answer
from tests.fakes.pickers.picker import Picker, running_picker

BODY = b'{"model":"m","prompt":"a"}'
ONE = "10.0.0.1:8000"
CONTINUE = Answer(kind="request_body")


async def test_without_a_configuration_it_is_full_duplex(picker: Picker) -> None:
    exchange = picker.exchange(request_mode=None)
    await exchange.post(BODY)
    assert await exchange.picked() == ONE
    await exchange.response_headers({})
    await exchange.answer()
    await exchange.response_body(b"x", end=True)
    assert (await exchange.answer()).streamed
    await exchange.half_close()


async def test_grpc_mode_is_full_duplex(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="GRPC", response_mode="GRPC")
    await exchange.post(BODY)
    assert await exchange.picked() == ONE
    exchange.cancel()


@pytest.mark.parametrize("end", [True, False])
async def test_a_buffered_body_carries_the_decision(picker: Picker, end: bool) -> None:
    exchange = picker.exchange(request_mode="BUFFERED")
    await exchange.request_headers()
    assert await exchange.answer() == Answer(kind="request_headers")
    await exchange.request_body(BODY, end=end)
    answer = await exchange.answer()
    assert answer.kind == "request_body"
    assert answer.destination == ONE
    assert answer.clear_route_cache
    assert answer.body is None
    exchange.cancel()


async def test_headers_that_no_client_may_send_are_gone_before_a_buffered_body_comes(
    picker: Picker,
) -> None:
    elsewhere = {"x-gateway-destination-endpoint": "6.6.6.6:80", "x-prefiller-host-port": "6.6.6.6"}
    exchange = picker.exchange(request_mode="BUFFERED")
    await exchange.request_headers({**COMPLETIONS, **elsewhere, "authorization": "Bearer t"})
    head = await exchange.answer()
    assert head.kind == "request_headers"
    assert head.remove_headers == elsewhere.keys()
    assert head.clear_route_cache
    assert head.destination is None
    await exchange.request_body(BODY, end=True)
    assert (await exchange.answer()).destination == ONE
    exchange.cancel()


async def test_trailers_without_a_buffered_body_are_its_end(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="BUFFERED")
    await exchange.request_headers()
    await exchange.request_trailers()
    _, answer = await exchange.answers(2)
    assert answer.status == 400
    exchange = picker.exchange(request_mode="BUFFERED")
    await exchange.request_headers({**COMPLETIONS, ":path": "/anything"})
    await exchange.request_trailers()
    _, answer = await exchange.answers(2)
    assert answer.kind == "request_trailers"
    assert answer.metadata == {"envoy.lb": {"x-gateway-destination-endpoint": ONE}}
    exchange.cancel()


@pytest.mark.parametrize("mode", ["BUFFERED", "BUFFERED_PARTIAL"])
async def test_a_tunnel_that_the_gateway_would_never_open_is_refused(
    picker: Picker, mode: str
) -> None:
    exchange = picker.exchange(request_mode=mode)
    await exchange.request_headers({**COMPLETIONS, ":method": "GET", "upgrade": "websocket"})
    answer = await exchange.answer()
    assert answer.status == 400
    assert b"buffers" in (answer.body or b"")


async def test_a_changed_buffered_body_comes_with_its_exact_length(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="BUFFERED")
    await exchange.post(BODY, {"x-llm-d-model-name-rewrite": "m-7"})
    _, answer = await exchange.answers(2)
    assert answer.body == b'{"model":"m-7","prompt":"a"}'
    assert not answer.streamed
    assert answer.set_headers["content-length"] == b"28"
    exchange.cancel()


async def test_a_buffered_bodiless_request_is_decided_on_the_headers(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="BUFFERED")
    await exchange.request_headers(end=True)
    answer = await exchange.answer()
    assert (answer.kind, answer.destination) == ("request_headers", ONE)
    exchange.cancel()


async def test_a_second_buffered_body_gets_one_answer_of_its_own(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="BUFFERED")
    await exchange.post(BODY)
    await exchange.answers(2)
    await exchange.request_body(b"", end=True)
    assert await exchange.answer() == CONTINUE
    exchange.cancel()


async def test_a_rejected_buffered_body_is_answered_with_the_error() -> None:
    async with running_picker(()) as picker:
        exchange = picker.exchange(request_mode="BUFFERED")
        await exchange.post(BODY)
        _, answer = await exchange.answers(2)
        assert answer.status == 503


async def test_a_cut_body_is_routed_as_raw_payload(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="BUFFERED_PARTIAL")
    await exchange.post(BODY[:-5], {"x-llm-d-model-name-rewrite": "m-7"})
    _, answer = await exchange.answers(2)
    assert answer.destination == ONE
    assert answer.body is None
    exchange.cancel()


async def test_a_whole_partial_body_is_parsed(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="BUFFERED_PARTIAL")
    await exchange.post(BODY)
    await exchange.answers(2)
    assert picker.metric("llm_d_epp_request_total", model_name="m") == 1
    exchange.cancel()


async def test_streamed_bodies_are_decided_on_the_headers(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="STREAMED")
    await exchange.request_headers()
    assert (await exchange.answer()).destination == ONE
    for end in (False, False, True):
        await exchange.request_body(b"x" * 100_000, end=end)
        assert await exchange.answer() == CONTINUE
    await exchange.request_trailers()
    assert await exchange.answer() == Answer(kind="request_trailers")
    exchange.cancel()


async def test_unseen_bodies_are_decided_on_the_headers(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="NONE", response_mode="NONE")
    await exchange.request_headers()
    assert (await exchange.answer()).destination == ONE
    await exchange.response_headers({":status": "200", "content-type": "text/event-stream"})
    assert await exchange.answer() == Answer(kind="response_headers")
    assert picker.metric("epp_request_terminations_total", cause="natural") == 1
    for unseen in ("response_size_bytes", "request_ttft_seconds", "output_tokens"):
        assert picker.metric(f"llm_d_epp_{unseen}_count") == 0
    await exchange.half_close()


async def test_a_gateway_that_leaves_after_the_pick_ends_the_request_naturally(
    picker: Picker,
) -> None:
    exchange = picker.exchange(response_mode="NONE")
    await exchange.post(BODY)
    await exchange.picked()
    await exchange.half_close()
    assert (await exchange.status()).name == "OK"
    assert picker.metric("epp_request_terminations_total", cause="natural") == 1


async def test_an_unset_mode_of_a_configuration_is_none(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="NONE", response_mode="STREAMED")
    await exchange.request_headers()
    assert (await exchange.answer()).destination == ONE
    exchange.cancel()


@pytest.mark.parametrize("mode", ["BUFFERED", "BUFFERED_PARTIAL", "STREAMED"])
async def test_each_response_message_gets_exactly_one_answer(picker: Picker, mode: str) -> None:
    exchange = picker.exchange(response_mode=mode)
    await exchange.post(BODY)
    await exchange.picked()
    await exchange.response_headers({":status": "200", "content-type": "application/json"})
    await exchange.answer()
    await exchange.response_body(b'{"usage":{"prompt_tokens":7}}', end=True)
    assert await exchange.answer() == Answer(kind="response_body")
    await exchange.response_trailers()
    assert await exchange.answer() == Answer(kind="response_trailers")
    assert picker.metric("llm_d_epp_request_input_tokens_sum") == 7
    await exchange.half_close()
    assert (await exchange.status()).name == "OK"


async def test_request_and_response_modes_are_independent(picker: Picker) -> None:
    exchange = picker.exchange(request_mode="STREAMED", response_mode="FULL_DUPLEX_STREAMED")
    await exchange.request_headers()
    await exchange.answer()
    await exchange.response_headers({":status": "200"})
    await exchange.answer()
    await exchange.response_body(b"x", end=True)
    assert (await exchange.answer()).streamed
    await exchange.half_close()


async def test_an_observing_gateway_is_counted_and_never_answered(picker: Picker) -> None:
    exchange = picker.exchange(
        request_mode="STREAMED", response_mode="STREAMED", observability_mode=True
    )
    await exchange.request_headers()
    await exchange.request_body(BODY, end=True)
    await exchange.response_headers({":status": "200"})
    await exchange.response_body(b"{}", end=True)
    await exchange.half_close()
    assert (await exchange.status()).name == "OK"
    assert picker.in_flight == {ONE: 0}
    assert picker.metric("epp_request_terminations_total", cause="natural") == 1


async def test_an_observing_gateway_is_not_answered_on_a_rejection_either() -> None:
    async with running_picker(()) as picker:
        exchange = picker.exchange(observability_mode=True)
        await exchange.post(BODY)
        await exchange.half_close()
        assert (await exchange.status()).name == "OK"
        assert picker.metric("epp_requests_rejected_total", code="503") == 1


@pytest.mark.parametrize("mode", ["STREAMED", "NONE"])
async def test_a_rewrite_that_the_mode_does_not_allow_is_warned_of_once(
    picker: Picker, mode: str
) -> None:
    with capture_logs() as logs:
        for _ in range(2):
            exchange = picker.exchange(request_mode=mode)
            await exchange.request_headers({**COMPLETIONS, "x-llm-d-model-name-rewrite": "m-7"})
            assert (await exchange.answer()).destination == ONE
            exchange.cancel()
    warnings = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert warnings == ["a model rewrite was asked for in a body mode that does not allow it"]
