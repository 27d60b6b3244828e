"""What plugins and the picker tell the gateway and operators beside the pick."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from epp.app.request_path import RequestPathSettings
from epp.config.built_in import BUILT_IN
from epp.framework.plugin import Plugin
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import PreRequest, ResponseMetadata
from epp.framework.scheduling_results import SchedulingResult
from epp.observability.log_level import LogLevelSwitch
from epp.observability.logging import LogLevel
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.explanation import MOST_TEXT
from epp.request_control.response_headers import ResponseSettings
from tests.fakes.logs import awaitable_logs, logging_as_it_was, until_logged
from tests.fakes.pickers.gateway_client import Answer, Exchange
from tests.fakes.pickers.picker import Picker, running_picker

BODY = b'{"model":"m","prompt":"what nobody may read"}'
ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"
JSON = {":status": "200", "content-type": "application/json"}
PIECES = [
    b'{"model":"n","usage":{"prompt_tokens":7,',
    b'"completion_tokens":10,"total_tokens":17}}',
]
REPORTER = """
plugins:
- {type: queue-scorer}
- type: request-attribute-reporter
  parameters:
    attributes: [{key: {name: cost}, expression: usage.completion_tokens}]
"""
COST = {"envoy.lb": {"cost": 10.0}}
SERVED = "x-gateway-destination-endpoint-served"
VERIFIED = "x-conformance-test-served-endpoint"


@pytest.mark.parametrize(
    ("metadata", "verdict"),
    [
        pytest.param({"envoy.lb": {SERVED: TWO}}, TWO, id="V32"),
        pytest.param(None, "fail: missing envoy lb metadata", id="V32 no namespace"),
        pytest.param(
            {"envoy.lb": {"other": 1}},
            "fail: missing destination endpoint served metadata",
            id="V32 no key",
        ),
    ],
)
async def test_the_served_endpoint_is_shown_to_conformance_tests(
    metadata: Mapping[str, Any] | None, verdict: str
) -> None:
    config = "plugins: [{type: queue-scorer}, {type: destination-endpoint-served-verifier}]"
    async with running_picker((ONE, TWO), config=config) as picker:
        exchange = await picked(picker)
        await exchange.response_headers(JSON, metadata=metadata)
        assert await exchange.answer() == Answer(
            kind="response_headers", set_headers={VERIFIED: verdict.encode()}
        )
        exchange.cancel()
        await picker.settled()
        assert picker.faults == 0


async def picked(picker: Picker, headers: Any = None, **modes: str) -> Exchange:
    exchange = picker.exchange(**modes)
    await exchange.post(BODY, headers)
    await exchange.picked()
    return exchange


async def response(exchange: Exchange, pieces: list[bytes], *, trailers: bool) -> list[Answer]:
    """Every answer to a response, the headers' one left out."""
    await exchange.response_headers(JSON)
    await exchange.answer()
    for piece in pieces:
        await exchange.response_body(piece, end=piece is pieces[-1] and not trailers)
    if trailers:
        await exchange.response_trailers()
    await exchange.half_close()
    answers: list[Answer] = []
    with suppress(AssertionError):  # the stream has ended
        while True:
            answers.append(await exchange.answer())
    return answers


@pytest.mark.parametrize(
    ("mode", "trailers", "told_with"),
    [
        pytest.param("FULL_DUPLEX_STREAMED", False, "response_body", id="V33"),
        pytest.param("FULL_DUPLEX_STREAMED", True, "response_trailers", id="V33 trailers"),
        pytest.param("STREAMED", False, "response_body", id="V33 streamed"),
        pytest.param("STREAMED", True, "response_trailers", id="V33 streamed trailers"),
        pytest.param("BUFFERED", False, "response_body", id="V33 buffered"),
        pytest.param("BUFFERED", True, "response_body", id="V33 buffered trailers"),
    ],
)
async def test_an_attribute_goes_with_the_last_piece_alone(
    mode: str, trailers: bool, told_with: str
) -> None:
    async with running_picker(config=REPORTER) as picker:
        exchange = await picked(picker, response_mode=mode)
        pieces = [b"".join(PIECES)] if mode == "BUFFERED" else PIECES
        answers = await response(exchange, pieces, trailers=trailers)
        assert len(answers) == len(pieces) + trailers
        told = [answer for answer in answers if answer.metadata]
        assert [(answer.kind, answer.metadata) for answer in told] == [(told_with, COST)]
        bodies = [answer for answer in answers if answer.kind == "response_body"]
        assert told[0] in (bodies[-1], answers[-1])
        if mode == "FULL_DUPLEX_STREAMED":
            assert [answer.body for answer in bodies] == pieces
        await picker.settled()
        assert picker.metric("llm_d_epp_request_output_tokens_sum") == 10
        assert picker.faults == 0


@pytest.mark.parametrize("trailers", [False, True])
async def test_an_attribute_goes_with_what_was_held_for_the_models_name(trailers: bool) -> None:
    async with running_picker(config=REPORTER) as picker:
        exchange = await picked(picker, {"x-llm-d-model-name-rewrite": "n"})
        answers = await response(exchange, PIECES, trailers=trailers)
        bodies = [answer for answer in answers if answer.kind == "response_body"]
        whole = b"".join(PIECES).replace(b'"n"', b'"m"')
        assert b"".join(answer.body or b"" for answer in bodies) == whole
        assert [answer.metadata for answer in bodies[-1:]] == [COST]
        assert sum(bool(answer.metadata) for answer in answers) == 1
        await picker.settled()


class Senseless(PreRequest, ResponseMetadata):
    """Tells what no gateway can be told."""

    type = "senseless"

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        request.dynamic_metadata["mine"] = {"a": object()}  # type: ignore[dict-item] # the point

    def response_metadata(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> Mapping[str, Mapping[str, Any]]:
        return {"mine": {"a": object()}}


class Shapeless(ResponseMetadata):
    """Tells nothing that has names."""

    type = "shapeless"

    def response_metadata(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> Mapping[str, Mapping[str, Any]]:
        return None  # type: ignore[return-value] # the point


@pytest.mark.parametrize("kind", [Senseless, Shapeless])
async def test_metadata_that_can_not_be_sent_costs_nothing_else(kind: type[Plugin]) -> None:
    config = f"plugins: [{{type: queue-scorer}}, {{type: {kind.type}}}]"
    async with running_picker(config=config, own_plugins=(kind,)) as picker:
        exchange = await picked(picker)
        answers = await response(exchange, PIECES, trailers=False)
        assert [(answer.body, answer.metadata) for answer in answers] == [
            (piece, {}) for piece in PIECES
        ]
        await picker.settled()
        assert picker.metric("epp_response_phase_errors_total") == 1


def scores_of(answer: Answer) -> Any:
    return answer.metadata["envoy.lb"].get("x-gateway-destination-endpoint-scores")


@pytest.mark.parametrize("emit", [pytest.param(True, id="V34"), pytest.param(False, id="V34 off")])
async def test_scores_are_told_if_the_operator_wants_it(emit: bool) -> None:
    settings = RequestPathSettings(director=DirectorSettings(emit_endpoint_scores=emit))
    async with running_picker((ONE, TWO), config=BUILT_IN, settings=settings) as picker:
        picker.report(ONE, waiting=4, kv=0.5)
        picker.report(TWO, waiting=0, kv=0.25)
        exchange = picker.exchange()
        await exchange.post(BODY)
        answer = await exchange.answer()
        assert answer.destination == TWO
        # By default a queue counts 2, KV-cache usage 2 and a prefix 3.
        expected = {ONE: pytest.approx(2 * 0 + 2 * 0.5), TWO: pytest.approx(2 * 1 + 2 * 0.75)}
        assert scores_of(answer) == (expected if emit else None)
        exchange.cancel()
        await picker.settled()


ODD_SCORERS = (
    f'{{type: queue-scorer, name: "sc\u00f6rer\\n number {index} of many"}}' for index in range(60)
)
ODD_NAMES = f"plugins: [{', '.join(ODD_SCORERS)}]"
SHOWN = ResponseSettings(decision_header=True)
WRITTEN = DirectorSettings(log_level=LogLevelSwitch("debug"))


async def decision_header(picker: Picker) -> str:
    exchange = await picked(picker, {"x-request-id": "secret", "authorization": "Bearer secret"})
    await exchange.response_headers({**JSON, "server": "secret"})
    value = (await exchange.answer()).set_headers["x-epp-decision"].decode("ascii")
    exchange.cancel()
    await picker.settled()
    return value


async def test_the_decision_is_shown_in_a_header() -> None:
    settings = RequestPathSettings(response=SHOWN)
    async with running_picker((ONE, TWO), config=BUILT_IN, settings=settings) as picker:
        picker.report(ONE, waiting=4, kv=0.5)
        assert await decision_header(picker) == (
            f"default -> {TWO}: {TWO}=4(queue-scorer 1x2, kv-cache-utilization-scorer 1x2,"
            f" prefix-cache-scorer 0x3) {ONE}=1(queue-scorer 0x2, kv-cache-utilization-scorer"
            " 0.5x2, prefix-cache-scorer 0x3)"
        )


async def test_the_header_is_short_and_printable_whatever_plugins_are_called() -> None:
    settings = RequestPathSettings(response=SHOWN)
    many = [f"10.0.0.{index}:8000" for index in range(1, 30)]
    async with running_picker(many, config=ODD_NAMES, settings=settings) as picker:
        value = await decision_header(picker)
        assert len(value) == MOST_TEXT
        assert value.isprintable()
        assert "sc?rer? number 1 of many" in value
        assert "secret" not in value
        assert "nobody" not in value


async def test_the_decision_is_a_line_of_the_debug_log() -> None:
    settings = RequestPathSettings(director=WRITTEN)
    async with running_picker((ONE, TWO), config=BUILT_IN, settings=settings) as picker:
        picker.report(ONE, waiting=4)
        with awaitable_logs() as lines:
            exchange = await picked(picker, {"x-request-id": "i" * 5000, "x-secret": "secret"})
            line = await until_logged(lines, "decided")
        assert line.keys() == {"event", "request_id", "decision"}
        assert line["decision"].startswith(f"default -> {TWO}: {TWO}=4(queue-scorer 1x2")
        assert line["request_id"] == "i" * 5000
        assert "secret" not in str(line)
        assert "nobody" not in str(line)
        exchange.cancel()
        await picker.settled()


async def test_the_debug_log_follows_the_level_while_the_process_runs() -> None:
    level = LogLevelSwitch("info")
    levels: tuple[LogLevel, ...] = ("info", "debug", "info")
    settings = RequestPathSettings(director=DirectorSettings(log_level=level))
    with logging_as_it_was(), awaitable_logs() as lines:
        async with running_picker((ONE, TWO), config=BUILT_IN, settings=settings) as picker:
            for wanted in levels:
                level.use(wanted)
                exchange = await picked(picker, {"x-request-id": f"at {wanted}"})
                exchange.cancel()
                await picker.settled()

    told = [lines.get_nowait() for _ in range(lines.qsize())]
    assert [line["request_id"] for line in told if line["event"] == "decided"] == ["at debug"]
