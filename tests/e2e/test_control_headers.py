"""Headers with which a client could steer what only the picker may: none reaches a model server."""

from __future__ import annotations

import httpx
import pytest

from epp.gateway.request_headers import HOST_HEADERS, REMOVED_HEADERS
from tests.fakes.programs.processes import MODEL
from tests.fakes.programs.scripted_server import ScriptedServer
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

DESTINATION = "x-gateway-destination-endpoint"
BODY = {"model": MODEL, "prompt": "Hi", "max_tokens": 1}
ELSEWHERE = "127.0.0.1:1"


def send(stack: Stack, method: str, *names: str) -> httpx.Response:
    headers = {"x-own": "kept", **dict.fromkeys(names, ELSEWHERE)}
    body = BODY if method == "POST" else None
    return httpx.request(method, f"{stack.url}/v1/completions", json=body, headers=headers)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_picked_request_brings_the_model_server_no_header_of_the_picker(
    scripted_stack: Stack, model_server: ScriptedServer, method: str
) -> None:
    answer = send(scripted_stack, method, DESTINATION, *REMOVED_HEADERS)

    assert answer.status_code == 200
    (request,) = model_server.received
    arrived = {name.lower() for name in request.headers}
    assert "x-own" in arrived
    assert arrived.isdisjoint(REMOVED_HEADERS)
    assert request.headers[DESTINATION] == str(model_server.address)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_without_a_picker_a_client_names_neither_its_destination_nor_other_hosts(
    make_stack: MakeStack, model_server: ScriptedServer, method: str
) -> None:
    stack = make_stack(fail_open=True, servers=[model_server.address])
    stack.picker.kill()
    model_server.forget()

    answer = send(stack, method, DESTINATION, *HOST_HEADERS)

    assert answer.status_code == 200
    (request,) = model_server.received
    assert request.headers["x-own"] == "kept"
    assert {DESTINATION, *HOST_HEADERS}.isdisjoint(name.lower() for name in request.headers)


def test_without_a_picker_fail_close_follows_no_destination_of_the_client(
    make_stack: MakeStack, model_server: ScriptedServer
) -> None:
    stack = make_stack(fail_open=False, servers=[model_server.address])
    stack.picker.kill()
    model_server.forget()

    headers = {DESTINATION: str(model_server.address)}
    answer = httpx.post(f"{stack.url}/v1/completions", json=BODY, headers=headers)

    assert answer.status_code == 503
    assert model_server.received == []


def test_headers_of_envoys_own_are_taken_from_no_client(
    scripted_stack: Stack, model_server: ScriptedServer
) -> None:
    model_server.script = lambda request, reply: reply.whole(status=503)
    steering = {
        "x-envoy-retry-on": "5xx",
        "x-envoy-max-retries": "4",
        "x-envoy-upstream-rq-timeout-ms": "1",
        "x-envoy-internal": "true",
    }

    answer = httpx.post(f"{scripted_stack.url}/v1/completions", json=BODY, headers=steering)

    assert answer.status_code == 503
    (request,) = model_server.received
    assert steering.keys().isdisjoint(name.lower() for name in request.headers)
