"""What the request phase answers, message by message (protocol §2, §12)."""

from __future__ import annotations

import uuid

import pytest
from structlog.testing import capture_logs

from epp.app.request_path import RequestPathSettings
from epp.framework.request import InferenceRequest
from epp.framework.request_control import PreRequest
from epp.framework.scheduling_results import SchedulingResult
from epp.gateway.context import GatewaySettings
from epp.plugins.parsers.openai import OpenAIParser
from epp.plugins.parsers.passthrough import PassthroughParser
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.hooks import Hooks
from epp.transport.grpc_aio import MessageLimits
from epp.wire import ext_proc_pb2 as wire
from tests.fakes.pickers.gateway_client import COMPLETIONS, Answer, header_map, processing_request
from tests.fakes.pickers.picker import Picker, running_picker

ONE = "10.0.0.1:8000"
BODY = b'{"model":"m","prompt":"a"}'
NO_ENDPOINTS = (
    b"inference error: ServiceUnavailable - "
    b"failed to find endpoint candidates for serving the request"
)


def assert_picked(answer: Answer, address: str = ONE) -> None:
    assert answer.kind == "request_headers"
    assert answer.destination == address
    assert answer.clear_route_cache
    assert answer.metadata == {"envoy.lb": {"x-gateway-destination-endpoint": address}}


async def test_one_message_body_gives_header_answer_then_same_bytes(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY)
    head, body = await exchange.answers(2)
    assert_picked(head)
    assert set(head.set_headers) == {"x-gateway-destination-endpoint"}
    assert body == Answer(kind="request_body", body=BODY, end=True, streamed=True)
    await exchange.half_close()


async def test_nothing_is_answered_before_the_body_is_complete(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.request_headers()
    for piece in (b'{"model":"m",', b'"prompt":'):
        await exchange.request_body(piece)
    await exchange.request_body(b'"a"}', end=True)
    head, body = await exchange.answers(2)
    assert_picked(head)
    assert (body.body, body.end) == (BODY, True)
    await exchange.silent()
    exchange.cancel()


async def test_an_empty_chunk_closes_the_body(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.request_headers()
    await exchange.request_body(BODY)
    await exchange.request_body(b"", end=True)
    head, body = await exchange.answers(2)
    assert_picked(head)
    assert (body.body, body.end) == (BODY, True)
    exchange.cancel()


def json_of(length: int) -> bytes:
    shell = b'{"model":"m","prompt":""}'
    return shell[:-2] + b"x" * (length - len(shell)) + shell[-2:]


@pytest.mark.parametrize(
    ("length", "pieces"),
    [
        (62_000, [62_000]),
        (62_001, [62_000, 1]),
        (124_001, [62_000, 62_000, 1]),
        (125_000, [62_000, 62_000, 1_000]),
        (5_000_000, [62_000] * 80 + [40_000]),
    ],
)
async def test_bodies_are_given_back_in_pieces_of_62000_bytes(
    picker: Picker, length: int, pieces: list[int]
) -> None:
    exchange = picker.exchange()
    body = json_of(length)
    await exchange.request_headers()
    await exchange.request_body(body[: length // 2])
    await exchange.request_body(body[length // 2 :], end=True)
    assert_picked(await exchange.answer())
    answers = await exchange.answers(len(pieces))
    assert [len(answer.body or b"") for answer in answers] == pieces
    assert b"".join(answer.body or b"" for answer in answers) == body
    assert [answer.end for answer in answers] == [False] * (len(pieces) - 1) + [True]
    exchange.cancel()


async def test_an_empty_body_on_a_fallback_path_is_one_empty_piece(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(b"", {":path": "/anything"})
    head, body = await exchange.answers(2)
    assert_picked(head)
    assert (body.body, body.end) == (b"", True)
    exchange.cancel()


async def test_unchanged_bodies_pass_byte_for_byte(picker: Picker) -> None:
    body = (
        '{ "model" :\t"m",\r\n "prompt": "\\u00e9é", "temperature": 1.0e0,'
        ' "seed": 12345678901234567890, "x": 1, "x": 2 }'
    ).encode()
    exchange = picker.exchange()
    await exchange.post(body)
    assert_picked(await exchange.answer())
    assert (await exchange.answer()).body == body
    exchange.cancel()


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST"])
async def test_a_request_without_a_body_is_routed_at_once(picker: Picker, method: str) -> None:
    exchange = picker.exchange()
    await exchange.request_headers(
        {":method": method, ":path": "/v1/models", "x-request-id": "t-1"}, end=True
    )
    assert_picked(await exchange.answer())
    await exchange.silent()
    exchange.cancel()


async def test_a_bodiless_request_respects_the_subset(two_endpoints: Picker) -> None:
    for _ in range(5):
        exchange = two_endpoints.exchange()
        await exchange.request_headers(end=True, metadata=subset(["10.0.0.2:8000"]))
        assert_picked(await exchange.answer(), "10.0.0.2:8000")
        exchange.cancel()


async def test_a_bodiless_request_without_endpoints_is_503() -> None:
    async with running_picker(()) as picker:
        exchange = picker.exchange()
        await exchange.request_headers(end=True)
        assert_no_endpoints(await exchange.answer())


async def test_ipv6_destinations_are_bracketed() -> None:
    async with running_picker(("[fd00::1]:8000",)) as picker:
        exchange = picker.exchange()
        await exchange.request_headers(end=True)
        assert_picked(await exchange.answer(), "[fd00::1]:8000")
        exchange.cancel()
        await picker.settled()


@pytest.mark.parametrize(
    "headers",
    [{":method": "GET", "upgrade": "WebSocket"}, {":method": "CONNECT"}],
    ids=["WebSocket", "CONNECT"],
)
async def test_a_tunnel_is_routed_at_once_and_lets_pass_what_comes(
    picker: Picker, headers: dict[str, str]
) -> None:
    exchange = picker.exchange()
    await exchange.request_headers({**COMPLETIONS, ":path": "/v1/realtime", **headers})
    assert_picked(await exchange.answer())
    await exchange.response_headers({":status": "101"})
    await exchange.answer()
    for piece in (b"a frame", b"another"):
        await exchange.request_body(piece)
        assert (await exchange.answer()).body == piece
        await exchange.response_body(piece)
        assert (await exchange.answer()).body == piece
    assert picker.in_flight == {ONE: 1}
    exchange.cancel()


async def test_an_upgrade_that_is_no_tunnel_is_read_as_any_request(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.request_headers({**COMPLETIONS, "upgrade": "h2c"})
    await exchange.request_body(b"{}", end=True)
    assert (await exchange.answer()).status == 400


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
async def test_an_empty_body_of_a_method_without_one_is_none(picker: Picker, method: str) -> None:
    exchange = picker.exchange()
    await exchange.request_headers({**COMPLETIONS, ":method": method})
    await exchange.request_body(b"", end=True)
    head, body = await exchange.answers(2)
    assert_picked(head)
    assert (body.body, body.end) == (b"", True)
    exchange.cancel()


async def test_half_a_surrogate_pair_in_a_body_is_routed_unchanged(picker: Picker) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"cut \\ud83d"}],"user":"\\udc00"}'
    exchange = picker.exchange()
    await exchange.post(body, {":path": "/v1/chat/completions"})
    assert_picked(await exchange.answer())
    assert (await exchange.answer()).body == body
    exchange.cancel()


async def test_trailers_end_the_body(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.request_headers()
    await exchange.request_body(BODY)
    await exchange.request_trailers()
    head, body, trailers = await exchange.answers(3)
    assert_picked(head)
    assert (body.body, body.end) == (BODY, False)
    assert trailers.kind == "request_trailers"
    exchange.cancel()


async def test_trailers_after_a_complete_body_get_trailers_only(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.answers(2)
    await exchange.request_trailers()
    assert (await exchange.answer()).kind == "request_trailers"
    await exchange.silent()
    exchange.cancel()


async def test_trailers_without_any_body_get_no_body_answer(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.request_headers({**COMPLETIONS, ":path": "/anything"})
    await exchange.request_trailers()
    head, trailers = await exchange.answers(2)
    assert_picked(head)
    assert trailers.kind == "request_trailers"
    exchange.cancel()


async def test_trailers_without_a_body_on_a_parsed_path_are_400(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.request_headers()
    await exchange.request_trailers()
    assert (await exchange.answer()).status == 400


async def test_a_body_delivered_twice_is_processed_once(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY)
    await exchange.answers(2)
    await exchange.request_body(BODY, end=True)
    await exchange.silent()
    assert picker.metric("epp_extproc_ignored_messages_total", kind="request-body") == 1
    assert picker.metric("llm_d_epp_request_total", model_name="m") == 1
    exchange.cancel()


async def test_the_rewrite_header_replaces_the_model_and_nothing_else(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY, {"x-llm-d-model-name-rewrite": "m-7"})
    head, body = await exchange.answers(2)
    assert head.remove_headers == {"x-llm-d-model-name-rewrite"}
    assert head.set_headers["content-length"] == b"28"
    assert body.body == b'{"model":"m-7","prompt":"a"}'
    assert picker.metric("llm_d_epp_request_total", model_name="m", target_model_name="m-7") == 1
    exchange.cancel()


async def test_the_rewrite_header_serves_a_body_without_a_model(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(b'{"prompt":"a"}', {"x-gateway-model-name-rewrite": "base"})
    _, body = await exchange.answers(2)
    assert body.body == b'{"model":"base","prompt":"a"}'
    exchange.cancel()


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/v1/completions", b'{"prompt":"a"}', "model not found in request body"),
        ("/v1/completions", b"no healthy upstream", "error unmarshaling request bodyMap: "),
        (
            "/v1/chat/completions",
            BODY,
            "invalid chat completions request: must have valid messages field",
        ),
        (
            "/v1/chat/completions",
            b"null",
            "invalid chat completions request: must have valid messages field",
        ),
        ("/v1/chat/completions", b"[1]", "error unmarshaling request bodyMap: "),
        ("/v1/chat/completions", b"", "error unmarshaling request bodyMap: "),
        ("/v1/completions", b'{"model":', "error unmarshaling request bodyMap: "),
    ],
)
async def test_bodies_that_can_not_be_served_are_400(
    picker: Picker, path: str, body: bytes, text: str
) -> None:
    exchange = picker.exchange()
    await exchange.post(body, {":path": path})
    answer = await exchange.answer()
    assert answer.status == 400
    assert (answer.body or b"").decode().startswith(f"inference error: BadRequest - {text}")
    assert answer.details == "epp_bad_request"
    assert (await exchange.status()).name == "OK"


async def test_a_missing_model_is_400_also_without_endpoints() -> None:
    async with running_picker(()) as picker:
        exchange = picker.exchange()
        await exchange.post(b'{"prompt":"a"}')
        assert (await exchange.answer()).status == 400


def assert_no_endpoints(answer: Answer) -> None:
    assert answer.status == 503
    assert answer.body == NO_ENDPOINTS
    assert answer.set_headers["x-llm-d-request-dropped-reason"] == b"rejected-no-endpoints"
    assert answer.set_headers["retry-after"] == b"1"
    assert answer.details == "epp_rejected_no_endpoints"


async def test_an_empty_pool_is_503_with_a_reason() -> None:
    async with running_picker(()) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        assert_no_endpoints(await exchange.answer())


def subset(value: object) -> dict[str, dict[str, object]]:
    return {"envoy.lb.subset_hint": {"x-gateway-destination-endpoint-subset": value}}


@pytest.mark.parametrize("value", [["10.9.9.9:8000"], [], "", 7, None, {"a": 1}, [1, None]])
async def test_a_subset_without_a_match_is_503(two_endpoints: Picker, value: object) -> None:
    exchange = two_endpoints.exchange()
    await exchange.post(BODY, metadata=subset(value))
    assert_no_endpoints(await exchange.answer())


@pytest.mark.parametrize(
    "value",
    [["10.0.0.2:8000"], ["10.0.0.2"], "10.0.0.2:8000", " 10.9.9.9:1 , 10.0.0.2", [1, "10.0.0.2"]],
)
async def test_a_subset_restricts_the_pick(two_endpoints: Picker, value: object) -> None:
    for _ in range(4):
        exchange = two_endpoints.exchange()
        await exchange.post(BODY, metadata=subset(value))
        assert await exchange.picked() == "10.0.0.2:8000"
        exchange.cancel()


async def test_a_subset_on_the_headers_holds_for_a_body_without_metadata(
    two_endpoints: Picker,
) -> None:
    nothing: list[dict[str, dict[str, object]] | None] = [None, {"envoy.lb.subset_hint": {}}]
    for later in nothing:
        exchange = two_endpoints.exchange()
        await exchange.request_headers(metadata=subset(["10.0.0.2:8000"]))
        await exchange.request_body(BODY, end=True, metadata=later)
        assert await exchange.picked() == "10.0.0.2:8000"
        exchange.cancel()


async def test_a_later_empty_subset_wins(two_endpoints: Picker) -> None:
    exchange = two_endpoints.exchange()
    await exchange.request_headers(metadata=subset(["10.0.0.2:8000"]))
    await exchange.request_body(BODY, end=True, metadata=subset([]))
    assert_no_endpoints(await exchange.answer())


async def test_the_subset_filter_can_be_switched_off() -> None:
    settings = RequestPathSettings(director=DirectorSettings(use_subset=False))
    async with running_picker(settings=settings) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY, metadata=subset(["10.9.9.9:8000"]))
        assert await exchange.picked() == ONE
        exchange.cancel()


async def test_passthrough_forwards_raw_bytes() -> None:
    async with running_picker(parsers=[PassthroughParser()]) as picker:
        exchange = picker.exchange()
        await exchange.post(b"raw \xff bytes", {":path": "/v2/infer"})
        head, body = await exchange.answers(2)
        assert_picked(head)
        assert (body.body, body.end) == (b"raw \xff bytes", True)
        assert picker.metric("llm_d_epp_request_total", model_name="", target_model_name="") == 1
        exchange.cancel()
        await picker.settled()


async def test_an_unknown_path_without_a_fallback_is_400() -> None:
    async with running_picker(parsers=[OpenAIParser()]) as picker:
        exchange = picker.exchange()
        await exchange.post(b"x", {":path": "/v2/infer"})
        answer = await exchange.answer()
        assert answer.status == 400
        assert answer.body == (
            b"inference error: BadRequest - "
            b"no parser registered matching path suffix for: /v2/infer"
        )


@pytest.mark.parametrize("path", ["/v2/models/m/infer", "/v1/mycompletions", "/tokenize"])
async def test_paths_nobody_claims_are_passed_through(picker: Picker, path: str) -> None:
    exchange = picker.exchange()
    await exchange.post(b'{"inputs":[]}', {":path": path})
    assert await exchange.picked() == ONE
    exchange.cancel()


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (BODY, "m"),
        (b'{"model":"m","messages":[{"role":"user","content":"a"}]}', "m"),
        (b'{"model":"m","input":["a","b"]}', "m"),
        (b"--form-data", ""),
    ],
    ids=["completions", "chat", "embeddings", "no JSON"],
)
async def test_without_a_path_a_body_is_read_as_what_it_can_be(
    picker: Picker, body: bytes, model: str
) -> None:
    exchange = picker.exchange()
    await exchange.request_headers({"x-request-id": "t-1"})
    await exchange.request_body(body, end=True)
    head, back = await exchange.answers(2)
    assert_picked(head)
    assert back.body == body
    assert picker.metric("llm_d_epp_request_total", model_name=model) == 1
    exchange.cancel()


async def test_without_a_path_and_a_fallback_it_is_read_as_completions() -> None:
    async with running_picker(parsers=[OpenAIParser()]) as picker:
        exchange = picker.exchange()
        await exchange.request_headers({"x-request-id": "t-1"})
        await exchange.request_body(b'{"model":"m"}', end=True)
        answer = await exchange.answer()
        assert answer.status == 400
        assert (answer.body or b"").endswith(b"must have prompt field")


async def test_count_tokens_ends_the_stream_after_the_answers(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(b"{}", {":path": "/v1/messages/count_tokens"})
    head, body = await exchange.answers(2)
    assert_picked(head)
    assert (body.body, body.end) == (b"{}", True)
    assert (await exchange.status()).name == "OK"


async def test_count_tokens_ended_by_trailers_answers_them_first(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.request_headers({**COMPLETIONS, ":path": "/v1/messages/count_tokens"})
    await exchange.request_body(b"{}")
    await exchange.request_trailers()
    kinds = [answer.kind for answer in await exchange.answers(3)]
    assert kinds == ["request_headers", "request_body", "request_trailers"]
    assert (await exchange.status()).name == "OK"


async def test_a_missing_request_id_is_generated_and_set(picker: Picker) -> None:
    for headers in ({}, {"x-request-id": ""}):
        exchange = picker.exchange()
        await exchange.request_headers({":method": "POST", ":path": "/v1/completions", **headers})
        await exchange.request_body(BODY, end=True)
        head = await exchange.answer()
        assert uuid.UUID(head.set_headers["x-request-id"].decode()).version == 4
        exchange.cancel()


async def test_the_query_string_is_no_part_of_the_path(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.post(BODY, {":path": "/v1/completions?beta=1"})
    head = await exchange.answer()
    assert ":path" not in head.set_headers
    assert picker.metric("llm_d_epp_request_total", model_name="m") == 1
    exchange.cancel()


async def test_a_null_content_with_tool_calls_is_routed_unchanged(picker: Picker) -> None:
    body = (
        b'{"model":"m","messages":[{"role":"assistant","content":null,'
        b'"tool_calls":[{"id":"1"}]},{"role":"tool"}]}'
    )
    exchange = picker.exchange()
    await exchange.post(body, {":path": "/v1/chat/completions"})
    assert_picked(await exchange.answer())
    assert (await exchange.answer()).body == body
    exchange.cancel()


async def test_control_headers_of_the_client_are_removed(picker: Picker) -> None:
    sent = {
        "x-gateway-destination-endpoint": "6.6.6.6:80",
        "x-gateway-destination-endpoint-served": "6.6.6.6:80",
        "x-gateway-destination-endpoint-subset": "6.6.6.6:80",
        "x-prefiller-host-port": "6.6.6.6:80",
        "x-prefiller-url": "http://6.6.6.6",
        "x-encoder-hosts-ports": "6.6.6.6:80",
        "x-data-parallel-host-port": "6.6.6.6:80",
        "x-kv-cache-source-host-port": "6.6.6.6:80",
        "X-LLM-D-Inference-Objective": "gold",
        "x-gateway-inference-fairness-id": "me",
        "authorization": "Bearer t",
    }
    exchange = picker.exchange()
    await exchange.post(BODY, sent)
    head = await exchange.answer()
    assert head.destination == ONE
    kept = {"x-gateway-destination-endpoint", "authorization"}
    assert head.remove_headers == {name.lower() for name in sent} - kept
    assert picker.metric("llm_d_epp_request_total", fairness_id="me") == 1
    exchange.cancel()


async def test_header_bytes_that_are_not_utf8_never_fail_a_request(picker: Picker) -> None:
    exchange = picker.exchange()
    await exchange.request_headers(
        {**COMPLETIONS, "x-odd": b"\xff\xfe", "x-llm-d-inference-fairness-id": b"t\xff"}
    )
    await exchange.request_body(BODY, end=True)
    assert await exchange.picked() == ONE
    assert picker.metric("llm_d_epp_request_total", fairness_id="t\N{REPLACEMENT CHARACTER}") == 1
    exchange.cancel()


@pytest.mark.parametrize("field", ["attributes", "metadata_context"])
async def test_texts_beside_the_headers_that_are_not_utf8_never_fail_a_request(
    picker: Picker, field: str
) -> None:
    message = processing_request("request_headers", headers=header_map(COMPLETIONS))
    struct = wire.RawStruct(fields={"request.id": wire.RawValue(string_value=b"t\xff")})
    beside = wire.RawProcessingRequest()
    if field == "attributes":
        beside.attributes["envoy.filters.http.ext_proc"].CopyFrom(struct)
    else:
        beside.metadata_context.filter_metadata["envoy.lb"].CopyFrom(struct)
    exchange = picker.exchange()
    await exchange.send_bytes(message.SerializeToString() + beside.SerializeToString())
    await exchange.request_body(BODY, end=True)
    assert await exchange.picked() == ONE
    exchange.cancel()


async def test_header_values_are_read_from_value_where_raw_value_is_empty(picker: Picker) -> None:
    headers = wire.HeaderMap(
        headers=[
            wire.HeaderValue(key=":path", value=b"/v1/chat/completions"),
            wire.HeaderValue(key="x-request-id", raw_value=b"t-1"),
        ]
    )
    exchange = picker.exchange()
    await exchange.send("request_headers", headers=headers)
    await exchange.request_body(BODY, end=True)
    assert (await exchange.answer()).status == 400
    await picker.settled()


async def test_the_body_cap_answers_413_before_more_is_read() -> None:
    settings = RequestPathSettings(gateway=GatewaySettings(max_request_body_bytes=1 << 20))
    async with running_picker(settings=settings) as picker:
        exchange = picker.exchange()
        await exchange.request_headers()
        await exchange.request_body(b"x" * (1 << 20))
        await exchange.request_body(b"x")
        answer = await exchange.answer()
        assert answer.status == 413
        assert answer.body == (
            b"inference error: PayloadTooLarge - "
            b"request body is larger than the allowed 1048576 bytes"
        )
        assert (await exchange.status()).name == "OK"
        await picker.settled()


async def test_a_declared_length_over_the_cap_is_413_before_the_body() -> None:
    settings = RequestPathSettings(gateway=GatewaySettings(max_request_body_bytes=100))
    async with running_picker(settings=settings) as picker:
        exchange = picker.exchange()
        await exchange.request_headers({**COMPLETIONS, "content-length": "101"})
        assert (await exchange.answer()).status == 413
        exchange = picker.exchange()
        await exchange.post(BODY, {"content-length": "26"})
        assert await exchange.picked() == ONE
        exchange.cancel()
        await picker.settled()


async def test_a_gzip_body_is_read_and_forwarded_as_it_came(picker: Picker) -> None:
    import gzip

    body = gzip.compress(BODY)
    exchange = picker.exchange()
    await exchange.post(body, {"content-encoding": "gzip"})
    assert_picked(await exchange.answer())
    assert (await exchange.answer()).body == body
    assert picker.metric("llm_d_epp_request_total", model_name="m") == 1
    exchange.cancel()


async def test_a_rewritten_gzip_body_is_forwarded_decoded(picker: Picker) -> None:
    import gzip

    headers = {"content-encoding": "gzip", "x-llm-d-model-name-rewrite": "m-7"}
    exchange = picker.exchange()
    await exchange.post(gzip.compress(BODY), headers)
    head, body = await exchange.answers(2)
    assert head.remove_headers == {"content-encoding", "x-llm-d-model-name-rewrite"}
    assert head.set_headers["content-length"] == b"28"
    assert body.body == b'{"model":"m-7","prompt":"a"}'
    exchange.cancel()


async def test_a_grpc_client_gets_a_grpc_status_with_a_rejection() -> None:
    async with running_picker(()) as picker:
        exchange = picker.exchange()
        await exchange.post(
            b"\0\0\0\0\0", {":path": "/pkg.Service/Method", "content-type": "application/grpc"}
        )
        answer = await exchange.answer()
        assert (answer.status, answer.grpc_status) == (503, 14)


async def test_error_bodies_can_be_openai_json() -> None:
    import json

    from epp.gateway.replies import ErrorFormat

    settings = RequestPathSettings(gateway=GatewaySettings(error_format=ErrorFormat.JSON))
    async with running_picker((), settings=settings) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        answer = await exchange.answer()
        assert answer.set_headers["content-type"] == b"application/json"
        error = json.loads(answer.body or b"")["error"]
        assert error["code"] == "rejected-no-endpoints"
        assert error["message"] == NO_ENDPOINTS.decode()


async def test_one_message_of_20_mib_is_answered() -> None:
    body = json_of(20 << 20)
    async with running_picker(message_limits=MessageLimits(max_receive_bytes=25 << 20)) as picker:
        exchange = picker.exchange()
        await exchange.post(body)
        assert await exchange.picked() == ONE
        exchange.cancel()
        await picker.settled()


async def test_prompts_are_not_in_the_error_or_the_log(picker: Picker) -> None:
    exchange = picker.exchange()
    with capture_logs() as logs:
        await exchange.post(b'{"model":"m","prompt":["secret-marker", 1], "secret-marker": }')
        answer = await exchange.answer()
    assert answer.status == 400
    assert b"secret-marker" not in (answer.body or b"")
    assert "secret-marker" not in repr(logs)


class Telling(PreRequest):
    """Puts metadata on the request, the destination's own key among it."""

    type = "telling"

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        request.dynamic_metadata["acme"] = {"tier": "gold", "share": 0.5}
        request.dynamic_metadata["envoy.lb"] = {
            "hint": True,
            "x-gateway-destination-endpoint": "6.6.6.6:1",
        }


async def test_metadata_of_a_plugin_is_merged_and_never_displaces_the_destination() -> None:
    async with running_picker(hooks=Hooks(pre_request=(Telling(),))) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        head = await exchange.answer()
        assert head.destination == ONE
        assert head.metadata == {
            "acme": {"tier": "gold", "share": 0.5},
            "envoy.lb": {"hint": True, "x-gateway-destination-endpoint": ONE},
        }
        exchange.cancel()
        await picker.settled()


@pytest.mark.parametrize("ending", ["last chunk", "trailers"])
async def test_response_processing_can_be_skipped_for_all_requests(ending: str) -> None:
    settings = RequestPathSettings(gateway=GatewaySettings(skip_response=True))
    async with running_picker(settings=settings) as picker:
        exchange = picker.exchange()
        await exchange.request_headers()
        await exchange.request_body(BODY, end=ending == "last chunk")
        if ending == "trailers":
            await exchange.request_trailers()
        count = 3 if ending == "trailers" else 2
        assert (await exchange.answers(count))[1].body == BODY
        assert (await exchange.status()).name == "OK"
        await picker.settled()
        assert picker.metric("epp_request_terminations_total", cause="natural") == 1


async def test_a_body_that_shrinks_below_one_piece_is_counted_out_with_its_answer(
    picker: Picker,
) -> None:
    exchange = picker.exchange()
    body = json_of(61_999).replace(b'"m"', b'"long"')
    await exchange.post(body, {"x-llm-d-model-name-rewrite": "m"})
    await exchange.answer()
    assert len((await exchange.answer()).body or b"") == 61_999
    assert picker.path.guard.buffered_bytes == 0
    exchange.cancel()
