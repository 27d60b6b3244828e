"""What becomes of headers with which a client could steer the picker, a gateway or a sidecar.

Each is sent over a real channel, and what the gateway would send on is asserted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from epp.app.request_path import RequestPathSettings
from epp.datastore.inference_pool import FailureMode
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Filter
from epp.gateway.overload import OverloadLimits
from epp.gateway.request_headers import REMOVED_HEADERS
from epp.request_control.director_settings import DirectorSettings
from tests.fakes.pickers.gateway_client import Answer, Exchange
from tests.fakes.pickers.picker import running_picker

DESTINATION = "x-gateway-destination-endpoint"
ENDPOINT = "10.0.0.1:8000"
ELSEWHERE = "192.0.2.1:1"
READ_AND_REMOVED = {
    "x-llm-d-inference-fairness-id": "tenant",
    "x-gateway-inference-fairness-id": "tenant",
    "x-llm-d-inference-objective": "critical",
    "x-gateway-inference-objective": "critical",
    "x-llm-d-model-name-rewrite": "m",
    "x-gateway-model-name-rewrite": "m",
    "x-llm-d-slo-ttft-ms": "1",
    "x-slo-ttft-ms": "1",
    "x-llm-d-slo-tpot-ms": "1",
    "x-slo-tpot-ms": "1",
    "x-llm-d-video-fps": "1",
    "x-llm-d-video-duration-seconds": "1",
    "x-llm-d-video-resolution": "1x1",
}
ONLY_REMOVED = {
    "x-gateway-destination-endpoint-subset": ELSEWHERE,
    "x-gateway-destination-endpoint-served": ELSEWHERE,
    "x-llm-d-request-dropped-reason": "rejected-saturated",
    "x-prefiller-host-port": ELSEWHERE,
    "x-prefiller-url": f"http://{ELSEWHERE}",
    "x-encoder-hosts-ports": f"{ELSEWHERE},{ELSEWHERE}",
    "x-data-parallel-host-port": ELSEWHERE,
    "x-kv-cache-source-host-port": ELSEWHERE,
}
REMOVED = {**READ_AND_REMOVED, **ONLY_REMOVED}
PASSED_ON = {
    "x-request-id": "mine",
    "authorization": "Bearer token",
    "test-epp-endpoint-selection": ELSEWHERE,
    "x-session-token": "ZGVmYXVsdC9wb2QtMA==",
    "x-original-path": "/v1/models",
    "x-forwarded-path": "/v1/models",
    "x-envoy-original-path": "/v1/models",
}
POST = {":method": "POST", ":path": "/v1/completions", "content-type": "application/json"}
BODY = b'{"model":"m","prompt":"a"}'
MODES = ["FULL_DUPLEX_STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "STREAMED", "NONE", "GRPC", None]


def upstream(sent: Sequence[tuple[str, str | bytes]], answers: Sequence[Answer]) -> dict[str, str]:
    """The request headers as the gateway sends them on."""
    headers = {name.lower(): str(value) for name, value in sent}
    for answer in answers:
        for name in answer.remove_headers:
            headers.pop(name, None)
        headers.update({name: value.decode() for name, value in answer.set_headers.items()})
    return headers


async def exchanged(
    exchange: Exchange, sent: list[tuple[str, str | bytes]], *, body: bytes | None
) -> list[Answer]:
    """The answers to a whole request, or to what came before a rejection."""
    await exchange.request_headers(sent, end=body is None)
    if body is not None:
        await exchange.request_body(body, end=True)
    last = "request_headers" if body is None else "request_body"
    answers = [await exchange.answer()]
    while answers[-1].kind not in (last, "immediate_response"):
        answers.append(await exchange.answer())
    return answers


def as_sent(*more: tuple[str, str]) -> list[tuple[str, str | bytes]]:
    """A request with every control header, each as a client may spell it."""
    headers: list[tuple[str, str | bytes]] = [*POST.items()]
    for name, value in {**REMOVED, **PASSED_ON}.items():
        headers += [(name.title(), value), (name, value)]
    return [*headers, *more]


def assert_nothing_is_steered(headers: dict[str, str]) -> None:
    assert headers.keys() & REMOVED.keys() == set()
    assert {name: headers[name] for name in PASSED_ON} == PASSED_ON


def test_every_header_that_is_removed_is_tried_here() -> None:
    assert REMOVED.keys() == REMOVED_HEADERS


@pytest.mark.parametrize("mode", MODES)
async def test_no_control_header_of_a_client_reaches_a_model_server(mode: str | None) -> None:
    sent = as_sent((DESTINATION, ELSEWHERE))
    async with running_picker([ENDPOINT]) as picker:
        exchange = picker.exchange(request_mode=mode)
        answers = await exchanged(exchange, sent, body=None if mode == "NONE" else BODY)
        exchange.cancel()

    headers = upstream(sent, answers)
    assert_nothing_is_steered(headers)
    assert headers[DESTINATION] == ENDPOINT
    assert ENDPOINT in [answer.destination for answer in answers]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
async def test_nor_does_one_of_a_request_without_a_body(mode: str | None, method: str) -> None:
    sent = [*as_sent((DESTINATION, ELSEWHERE)), (":method", method)]
    async with running_picker([ENDPOINT]) as picker:
        exchange = picker.exchange(request_mode=mode)
        answers = await exchanged(exchange, sent, body=None)
        exchange.cancel()

    headers = upstream(sent, answers)
    assert_nothing_is_steered(headers)
    assert headers[DESTINATION] == ENDPOINT


@pytest.mark.parametrize("value", ["", " ", "\x7f", "a" * 5000, "10.0.0.1:8000, 192.0.2.1:1"])
@pytest.mark.parametrize("name", [DESTINATION, *REMOVED])
async def test_whatever_its_value_is(name: str, value: str) -> None:
    sent: list[tuple[str, str | bytes]] = [*POST.items(), (name, value)]
    async with running_picker([ENDPOINT]) as picker:
        exchange = picker.exchange()
        answers = await exchanged(exchange, sent, body=BODY)
        exchange.cancel()

    headers = upstream(sent, answers)
    assert headers.pop(DESTINATION) == ENDPOINT
    assert name not in headers


@pytest.mark.parametrize("mode", MODES)
async def test_nor_does_one_of_a_request_that_ends_with_trailers_alone(mode: str | None) -> None:
    sent = [*as_sent((DESTINATION, ELSEWHERE)), (":path", "/anything")]
    async with running_picker([ENDPOINT]) as picker:
        exchange = picker.exchange(request_mode=mode)
        await exchange.request_headers(sent)
        await exchange.request_trailers()
        answers = await exchange.answers(2)
        exchange.cancel()

    headers = upstream(sent, answers)
    assert_nothing_is_steered(headers)
    assert headers.get(DESTINATION) in (ENDPOINT, None)


class Broken(Filter):
    """Raises, always."""

    type = "broken"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        raise RuntimeError


BROKEN = """
plugins: [{type: broken}, {type: random-picker}]
schedulingProfiles:
- {name: default, plugins: [{pluginRef: broken}, {pluginRef: random-picker}]}
"""
FAIL_OPEN = FailureMode.FAIL_OPEN
UNSYNCED = DirectorSettings(decision_timeout=0.02, failure_mode=FAIL_OPEN)
OVERLOADED = OverloadLimits(loop_lag_seconds=1.0)


@pytest.mark.parametrize("mode", ["FULL_DUPLEX_STREAMED", "BUFFERED"])
@pytest.mark.parametrize(
    ("settings", "lag", "destination"),
    [
        ({"config": BROKEN, "own_plugins": [Broken]}, 0.0, ENDPOINT),
        ({"settings": RequestPathSettings(overload=OVERLOADED)}, 1.2, ENDPOINT),
        ({"settings": RequestPathSettings(director=UNSYNCED), "synced": False}, 0.0, None),
    ],
    ids=["a broken plugin", "overload", "no pool yet"],
)
async def test_nor_when_the_picker_fails_open(
    mode: str, settings: dict[str, Any], lag: float, destination: str | None
) -> None:
    sent = as_sent((DESTINATION, ELSEWHERE))
    async with running_picker([ENDPOINT], failure_mode=FAIL_OPEN, **settings) as picker:
        for _ in range(3):
            picker.path.guard.record_lag(lag)
        exchange = picker.exchange(request_mode=mode)
        answers = await exchanged(exchange, sent, body=BODY)
        exchange.cancel()

    headers = upstream(sent, answers)
    assert_nothing_is_steered(headers)
    assert headers.get(DESTINATION) == destination


@pytest.mark.parametrize("mode", ["FULL_DUPLEX_STREAMED", "BUFFERED", "NONE"])
async def test_a_rejection_tells_the_client_nothing_of_its_headers(mode: str) -> None:
    sent = as_sent((DESTINATION, ELSEWHERE))
    async with running_picker([]) as picker:
        exchange = picker.exchange(request_mode=mode)
        *_, answer = await exchanged(exchange, sent, body=None if mode == "NONE" else BODY)

    assert answer.status == 503
    told = {name for name in answer.set_headers if name in {DESTINATION, *REMOVED}}
    assert told == {"x-llm-d-request-dropped-reason"}
    assert answer.set_headers["x-llm-d-request-dropped-reason"] == b"rejected-no-endpoints"
    assert ELSEWHERE.encode() not in (answer.body or b"")
