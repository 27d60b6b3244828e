"""What the response phase answers and counts (protocol §7, §12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from epp.app.request_path import RequestPathSettings
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest, InferenceResponse, TerminationCause
from epp.framework.request_control import ResponseBody, ResponseHeader
from epp.framework.request_handling import ResponseReader
from epp.gateway.overload import OverloadLimits
from epp.plugins.parsers.openai import OpenAIParser
from epp.plugins.parsers.usage import JsonUsageReader
from epp.request_control.hooks import Hooks
from epp.request_control.response_headers import ResponseSettings
from tests.fakes.eventually import eventually
from tests.fakes.pickers.gateway_client import Answer, Exchange
from tests.fakes.pickers.picker import Picker, running_picker

BODY = b'{"model":"m","prompt":"a"}'
JSON = {":status": "200", "content-type": "application/json", "content-length": "78"}
SSE = {":status": "200", "content-type": "text/event-stream; charset=utf-8"}
USAGE = b'{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}'
TOKENS = "llm_d_epp_request_{}_tokens_sum"


@pytest.fixture
async def picked(picker: Picker) -> AsyncIterator[Exchange]:
    """A stream whose request went to 10.0.0.1:8000."""
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.picked()
    yield exchange
    await exchange.half_close()


async def rewritten(picker: Picker, **modes: str) -> Exchange:
    """A stream whose request asked for `m` and went to model `m-v2`."""
    exchange = picker.exchange(**modes)
    await exchange.post(BODY, {"x-llm-d-model-name-rewrite": "m-v2"})
    if modes.get("request_mode") == "BUFFERED":
        await exchange.answers(2)
    else:
        await exchange.picked()
    return exchange


async def echoed(exchange: Exchange, pieces: list[bytes]) -> None:
    """Send pieces, the last one ending the response; each comes back as it was."""
    for index, piece in enumerate(pieces):
        end = index == len(pieces) - 1
        await exchange.response_body(piece, end=end)
        assert await exchange.answer() == Answer(
            kind="response_body", body=piece, end=end, streamed=True
        )


async def test_json_passes_piece_by_piece_and_its_usage_is_counted(
    picker: Picker, picked: Exchange
) -> None:
    await picked.response_headers(JSON)
    assert await picked.answer() == Answer(kind="response_headers")
    await echoed(picked, [b'{"usage":{"prompt_tokens":7,', b'"completion_tokens":10}}'])
    assert picker.metric(TOKENS.format("input")) == 7
    assert picker.metric(TOKENS.format("output")) == 10
    assert picker.records.all[0].cause is TerminationCause.NATURAL


async def test_events_pass_one_by_one_and_usage_is_counted_once(
    picker: Picker, picked: Exchange
) -> None:
    await picked.response_headers(SSE)
    await picked.answer()
    events = [
        b'data: {"choices":[]}\n\n',
        b'data: {"usage":' + USAGE + b"}\n\ndata: [DO",
        b"NE]\n\n",
        b"",
    ]
    await echoed(picked, events)
    assert picker.metric(TOKENS.format("input")) == 7
    assert picker.metric(TOKENS.format("output")) == 10
    assert picker.metric("llm_d_epp_request_output_tokens_count") == 1
    assert picker.metric("llm_d_epp_request_ttft_seconds_count", streaming="true") == 1
    assert picker.metric("llm_d_epp_request_streaming_itl_seconds_count") == 2


async def test_usage_on_every_event_is_observed_once(picker: Picker, picked: Exchange) -> None:
    await picked.response_headers(SSE)
    await picked.answer()
    event = b'data: {"usage":{"prompt_tokens":7,"completion_tokens":%d}}\n\n'
    await echoed(picked, [event % tokens for tokens in range(1, 6)])
    assert picker.metric("llm_d_epp_request_output_tokens_count") == 1
    assert picker.metric(TOKENS.format("output")) == 5


async def test_a_count_of_tokens_beyond_all_numbers_costs_the_client_nothing(
    picker: Picker, picked: Exchange
) -> None:
    await picked.response_headers(JSON)
    await picked.answer()
    await echoed(picked, [b'{"usage":{"completion_tokens":' + b"9" * 400 + b"}}"])
    assert picker.records.all[0].cause is TerminationCause.NATURAL


async def test_a_reader_of_usage_that_fails_at_the_end_costs_nothing_but_a_count(
    picker: Picker, picked: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: JsonUsageReader) -> None:
        raise ArithmeticError

    monkeypatch.setattr(JsonUsageReader, "finish", fail)
    await picked.response_headers(JSON)
    await picked.answer()
    await echoed(picked, [b'{"usage":{}}'])
    assert picker.metric("epp_response_phase_errors_total") == 1
    assert picker.records.all[0].cause is TerminationCause.NATURAL


async def test_a_response_that_is_not_json_passes_unchanged(
    picker: Picker, picked: Exchange
) -> None:
    await picked.response_headers(JSON)
    await picked.answer()
    await echoed(picked, [b"upstream gone"])
    assert picker.metric("llm_d_epp_request_output_tokens_count") == 0
    assert picker.metric("epp_response_phase_errors_total") == 0


async def test_a_response_without_a_request_on_the_stream_passes(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.response_headers({})
    assert (await exchange.answer()).kind == "response_headers"
    await echoed(exchange, [b"{}"])
    await exchange.half_close()
    assert (await exchange.status()).name == "OK"


@pytest.mark.parametrize("kind", ["request_body", "request_trailers"])
async def test_a_request_that_begins_after_its_response_is_not_answered(
    picker: Picker, kind: str
) -> None:
    exchange = picker.exchange()
    await exchange.response_headers(SSE)
    assert await exchange.answer() == Answer(kind="response_headers")
    await exchange.send(kind)  # the gateway could do nothing with a rejection any more
    await echoed(exchange, [b"data: {}\n\n"])
    await exchange.half_close()


async def test_repeated_response_headers_are_left_alone(picked: Exchange) -> None:
    await picked.send(
        "response_headers",
        headers=header_map_of(
            (":status", "200"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("X-Odd", "1")
        ),
    )
    assert await picked.answer() == Answer(kind="response_headers")


def header_map_of(*items: tuple[str, str]) -> object:
    from tests.fakes.pickers.gateway_client import header_map

    return header_map(items)


async def test_the_debug_header_and_the_served_endpoint_are_opt_in() -> None:
    response = ResponseSettings(served_endpoint_header=True, debug_header=True)
    async with running_picker(settings=RequestPathSettings(response=response)) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        await exchange.picked()
        await exchange.response_headers(JSON)
        assert (await exchange.answer()).set_headers == {
            "x-gateway-destination-endpoint-served": b"10.0.0.1:8000",
            "x-went-into-resp-headers": b"true",
        }
        exchange.cancel()
        await picker.settled()


async def test_an_interim_response_is_answered_and_is_not_the_response(
    picker: Picker, picked: Exchange
) -> None:
    for status in ("100", "103"):
        await picked.response_headers({":status": status, "link": "</style.css>"})
        assert await picked.answer() == Answer(kind="response_headers")
    await picked.response_headers(JSON)
    assert await picked.answer() == Answer(kind="response_headers")
    await echoed(picked, [b'{"usage":%b}' % USAGE])
    assert picker.metric(TOKENS.format("output")) == 10


async def test_a_response_of_headers_alone_completes(picker: Picker, picked: Exchange) -> None:
    await picked.response_headers({":status": "204"}, end=True)
    assert (await picked.answer()).kind == "response_headers"
    assert picker.metric("epp_request_terminations_total", cause="natural") == 1
    assert picker.in_flight == {"10.0.0.1:8000": 0}


async def test_response_trailers_end_a_response(picker: Picker, picked: Exchange) -> None:
    await picked.response_headers({":status": "200", "content-type": "application/grpc"})
    await picked.answer()
    await picked.response_body(b"frame")
    body = await picked.answer()
    assert (body.body, body.end) == (b"frame", False)
    await picked.response_trailers()
    assert (await picked.answer()).kind == "response_trailers"
    assert picker.metric("epp_request_terminations_total", cause="natural") == 1


async def test_trailers_without_a_body_get_no_body_answer(picked: Exchange) -> None:
    await picked.response_headers({":status": "200"})
    await picked.answer()
    await picked.response_trailers()
    assert (await picked.answer()).kind == "response_trailers"


@pytest.mark.parametrize("end", [False, True])
async def test_big_response_pieces_are_cut(picked: Exchange, end: bool) -> None:
    body = b"0123456789" * 12_500
    await picked.response_headers({":status": "200"})
    await picked.answer()
    await picked.response_body(body, end=end)
    answers = await picked.answers(3)
    assert [len(answer.body or b"") for answer in answers] == [62_000, 62_000, 1_000]
    assert b"".join(answer.body or b"" for answer in answers) == body
    assert [answer.end for answer in answers] == [False, False, end]


async def test_an_upstream_error_is_natural_and_counted(picker: Picker, picked: Exchange) -> None:
    await picked.response_headers({":status": "503"})
    await picked.answer()
    await echoed(picked, [b"busy"])
    assert picker.metric("epp_request_terminations_total", cause="natural") == 1
    assert picker.metric("llm_d_epp_request_error_total", error_code="ModelServerError") == 1


@pytest.mark.parametrize("cut", [1, 9, 20, 33])
async def test_the_model_name_of_events_is_turned_back_also_when_it_is_split(
    picker: Picker, cut: int
) -> None:
    exchange = await rewritten(picker)
    await exchange.response_headers(SSE)
    assert (await exchange.answer()).remove_headers == {"content-length"}
    event = b'data: {"model":"m-v2","text":"m-v2 says \\"model\\":\\"m-v2\\""}\n\n'
    await exchange.response_body(event[:cut])
    await exchange.response_body(event[cut:])
    await exchange.response_body(b"", end=True)
    got = b""
    while True:
        answer = await exchange.answer()
        got += answer.body or b""
        if answer.end:
            break
    assert got == b'data: {"model":"m","text":"m-v2 says \\"model\\":\\"m-v2\\""}\n\n'
    await exchange.half_close()


async def test_without_a_content_type_the_request_says_whether_events_come(picker: Picker) -> None:
    exchange = picker.exchange()
    body = b'{"model":"m","prompt":"a","stream":true}'
    await exchange.post(body, {"x-llm-d-model-name-rewrite": "m-v2"})
    await exchange.picked()
    await exchange.response_headers({":status": "200"})
    await exchange.answer()
    await exchange.response_body(b'data: {"model":"m-v2"}\n\n')
    assert (await exchange.answer()).body == b'data: {"model":"m"}\n\n'
    exchange.cancel()


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/jsonl"])
async def test_lines_of_json_are_not_held_until_the_last_one(picker: Picker, kind: str) -> None:
    exchange = await rewritten(picker)
    await exchange.response_headers({":status": "200", "content-type": kind})
    await exchange.answer()
    for done in (b"false", b"true"):
        await exchange.response_body(b'{"model":"m-v2","done":%b}\n' % done)
        assert (await exchange.answer()).body == b'{"model":"m","done":%b}\n' % done
    exchange.cancel()


async def test_the_model_name_is_turned_back_where_no_response_headers_are_shown(
    picker: Picker,
) -> None:
    exchange = await rewritten(picker)
    await exchange.response_body(b'{"model":"m-v2"}', end=True)
    assert (await exchange.answer()).body == b'{"model":"m"}'
    exchange.cancel()


async def test_the_model_name_of_json_is_turned_back(picker: Picker) -> None:
    exchange = await rewritten(picker)
    await exchange.response_headers(JSON)
    assert (await exchange.answer()).remove_headers == {"content-length"}
    await exchange.response_body(b'{"model":"m-')
    await exchange.response_body(b'v2","x":1}', end=True)
    answer = await exchange.answer()
    assert (answer.body, answer.end) == (b'{"model":"m","x":1}', True)
    await exchange.half_close()


@pytest.mark.parametrize("end", ["piece", "trailers", "disconnect"])
async def test_a_held_response_counts_as_buffered_until_it_ends(picker: Picker, end: str) -> None:
    exchange = await rewritten(picker)
    await exchange.response_headers(JSON)
    await exchange.answer()
    await exchange.response_body(b'{"text":"' + b"a" * 99_991)
    await eventually(lambda: picker.path.guard.buffered_bytes == 100_000)

    if end == "piece":
        await exchange.response_body(b'"}', end=True)
    elif end == "trailers":
        await exchange.response_trailers()
    else:
        exchange.cancel()

    await eventually(lambda: picker.path.guard.buffered_bytes == 0)
    exchange.cancel()


async def test_a_document_is_not_held_under_pressure() -> None:
    settings = RequestPathSettings(overload=OverloadLimits(buffered_bytes=150_000))
    async with running_picker(settings=settings) as picker:
        exchange = await rewritten(picker)
        await exchange.response_headers(JSON)
        await exchange.answer()
        start = b'{"model":"m-v2","text":"'
        for piece in (start, b"a" * 160_000, b"b", b'c"}'):
            await exchange.response_body(piece, end=piece.endswith(b"}"))

        body = b""
        while not (answer := await exchange.answer()).end:
            body += answer.body or b""

        assert body + (answer.body or b"") == (
            start.replace(b"m-v2", b"m") + b"a" * 160_000 + b'bc"}'
        )
        assert picker.path.guard.buffered_bytes == 0
        await exchange.half_close()


async def test_what_was_held_goes_out_before_the_trailers(picker: Picker) -> None:
    exchange = await rewritten(picker)
    await exchange.response_headers(JSON)
    await exchange.answer()
    await exchange.response_body(b'{"model":"m-v2"}')
    await exchange.response_trailers()
    body, trailers = await exchange.answers(2)
    assert (body.body, body.end) == (b'{"model":"m"}', False)
    assert trailers.kind == "response_trailers"
    await exchange.half_close()


async def test_a_buffered_response_is_rewritten_with_its_exact_length(picker: Picker) -> None:
    exchange = await rewritten(picker, request_mode="BUFFERED", response_mode="BUFFERED")
    await exchange.response_headers(JSON)
    assert await exchange.answer() == Answer(kind="response_headers")
    await exchange.response_body(b'{"model":"m-v2"}', end=True)
    assert await exchange.answer() == Answer(
        kind="response_body", body=b'{"model":"m"}', set_headers={"content-length": b"13"}
    )
    await exchange.half_close()


async def test_a_streamed_response_is_rewritten_where_it_fits_in_a_piece(picker: Picker) -> None:
    exchange = await rewritten(picker, request_mode="BUFFERED", response_mode="STREAMED")
    await exchange.response_headers(SSE)
    await exchange.answer()
    await exchange.response_body(b'data: {"model":"m-v2"}\n\n')
    assert (await exchange.answer()).body == b'data: {"model":"m"}\n\n'
    await exchange.response_body(b"data: [DONE]\n\n", end=True)
    assert await exchange.answer() == Answer(kind="response_body")
    await exchange.half_close()


async def test_an_unchanged_model_is_not_looked_for_in_the_response(picked: Exchange) -> None:
    await picked.response_headers(JSON)
    assert await picked.answer() == Answer(kind="response_headers")
    await echoed(picked, [b'{"model":', b'"other"}'])


@pytest.mark.parametrize("by", ["metadata", "attribute"])
async def test_the_endpoint_that_served_gets_the_credit(two_endpoints: Picker, by: str) -> None:
    exchange = two_endpoints.exchange()
    await exchange.post(BODY)
    first = await exchange.picked()
    other = next(address for address in two_endpoints.in_flight if address != first)
    assert two_endpoints.in_flight == {first: 1, other: 0}
    if by == "metadata":
        served = {"envoy.lb": {"x-gateway-destination-endpoint-served": other}}
        await exchange.response_headers(JSON, metadata=served)
    else:
        attributes = {"envoy.filters.http.ext_proc": {"upstream.address": other}}
        await exchange.response_headers(JSON, attributes=attributes)
    await exchange.answer()
    assert two_endpoints.in_flight == {first: 0, other: 1}
    await exchange.response_body(b"{}", end=True)
    await exchange.answer()
    assert two_endpoints.in_flight == {first: 0, other: 0}
    await exchange.half_close()


class SlowHook(ResponseBody):
    """A response hook that waits until it is let go."""

    type = "slow"

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.seen: list[InferenceResponse] = []
        self.done = asyncio.Event()

    async def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        await self.go.wait()
        self.seen.append(response)
        if response.ended:
            self.done.set()


async def test_pieces_are_answered_while_hooks_still_wait() -> None:
    hook = SlowHook()
    async with running_picker(hooks=Hooks(response_body=(hook,))) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        await exchange.picked()
        await exchange.response_headers(SSE)
        await exchange.answer()
        await echoed(exchange, [b"data: {}\n\n"] * 50)
        assert hook.seen == []
        hook.go.set()
        async with asyncio.timeout(5):
            await hook.done.wait()
        sizes = [response.body_bytes for response in hook.seen]
        assert sizes == sorted(sizes)
        assert len(hook.seen) == 1 + 50
        assert [response.ended for response in hook.seen].count(True) == 1
        await exchange.half_close()


async def test_hooks_that_fall_far_behind_lose_only_steps_in_between() -> None:
    hook = SlowHook()
    async with running_picker(hooks=Hooks(response_body=(hook,))) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        await exchange.picked()
        await exchange.response_headers(SSE)
        await exchange.answer()
        await echoed(exchange, [b"data: {}\n\n"] * 300)
        hook.go.set()
        async with asyncio.timeout(5):
            await hook.done.wait()
        assert len(hook.seen) <= 102
        assert hook.seen[-1].body_bytes == 300 * 10
        await exchange.half_close()


class BrokenHook(ResponseHeader, ResponseBody):
    type = "broken"

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        response.headers.set("x-half-done", "1")
        raise RuntimeError

    def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        raise RuntimeError


async def test_a_failing_response_hook_costs_nothing_but_a_count() -> None:
    hook = BrokenHook()
    async with running_picker(
        hooks=Hooks(response_header=(hook,), response_body=(hook,))
    ) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        await exchange.picked()
        await exchange.response_headers(JSON)
        assert await exchange.answer() == Answer(kind="response_headers")
        await echoed(exchange, [b"{}"])
        await exchange.half_close()
        assert (await exchange.status()).name == "OK"
        assert picker.metric("epp_response_phase_errors_total") == 3


class Unreadable(OpenAIParser):
    """Knows requests, and fails at every response."""

    type = "unreadable-parser"

    def response_reader(self, *, streaming: bool) -> ResponseReader:
        raise ValueError(streaming)


async def test_a_parser_that_fails_at_responses_is_told_once_with_its_request() -> None:
    config = "requestHandler: {parsers: [{pluginRef: unreadable-parser}]}"
    async with running_picker(config=config, own_plugins=(Unreadable,)) as picker:
        with capture_logs() as logs:
            for number in range(3):
                exchange = picker.exchange()
                await exchange.post(BODY, {"x-request-id": f"r{number}"})
                await exchange.picked()
                await exchange.response_headers(JSON)
                assert await exchange.answer() == Answer(kind="response_headers")
                await echoed(exchange, [b"{}"])
                await exchange.half_close()
                assert (await exchange.status()).name == "OK"
        assert picker.metric("epp_response_phase_errors_total") == 3

    told = [
        (line["step"], line["error"], line["request_id"])
        for line in logs
        if line["event"] == "response phase failed"
    ]
    assert told == [("reading usage", "ValueError", "r0")]


class SeeingHook(ResponseHeader):
    """Keeps what it saw of the header that `BrokenHook` sets."""

    type = "seeing"

    def __init__(self) -> None:
        self.seen: list[str | None] = []

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        self.seen.append(response.headers.get("x-half-done"))


async def test_the_next_hook_sees_nothing_of_what_a_failing_one_changed() -> None:
    seeing = SeeingHook()
    async with running_picker(hooks=Hooks(response_header=(BrokenHook(), seeing))) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        await exchange.picked()
        await exchange.response_headers(JSON)
        await exchange.answer()
        assert seeing.seen == [None]
        exchange.cancel()
        await picker.settled()


class HeaderHook(ResponseHeader):
    type = "header"

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        response.headers.set("x-added", "1")
        response.headers.remove("server")
        response.headers.set("transfer-encoding", "chunked")
        response.headers.set(":status", "200")


async def test_hooks_change_response_headers_but_never_hop_by_hop_ones() -> None:
    async with running_picker(hooks=Hooks(response_header=(HeaderHook(),))) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        await exchange.picked()
        await exchange.response_headers({**JSON, "server": "uvicorn"})
        answer = await exchange.answer()
        assert answer.set_headers == {"x-added": b"1"}
        assert answer.remove_headers == {"server"}
        exchange.cancel()
        await picker.settled()
