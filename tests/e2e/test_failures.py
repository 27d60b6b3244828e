"""What clients get when pickers, model servers or the pool fail, in both failure modes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from epp.standalone.envoy_clusters import PICKED, Address
from tests.fakes.programs.load import Load
from tests.fakes.programs.processes import MODEL, PortSource
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.scripted_server import EVENT_STREAM, Gate, Received, Reply, ScriptedServer
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

BODY = json.dumps({"model": MODEL, "prompt": "word " * 10_000, "max_tokens": 1}).encode()
JSON = {"content-type": "application/json"}
COMPLETIONS = "/v1/completions"
SERVED = "x-gateway-destination-endpoint-served"
REASON = "x-llm-d-request-dropped-reason"
IN_FLIGHT = "epp_requests_in_flight"
FAILED = "http.inference.ext_proc.streams_failed"

both_modes = pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])


def complete(stack: Stack) -> httpx.Response:
    return httpx.post(f"{stack.url}{COMPLETIONS}", content=BODY, headers=JSON, timeout=25)


def wait_for_answer(stack: Stack, status: int, header: str) -> httpx.Response:
    """Ask until the answer has this status and this header."""
    answers: list[httpx.Response] = []

    def is_wanted() -> bool:
        answers.append(complete(stack))
        return answers[-1].status_code == status and header in answers[-1].headers

    wait_until(is_wanted, f"an answer with {status} and {header}")
    return answers[-1]


def wait_for_nothing_in_flight(stack: Stack) -> None:
    wait_until(lambda: stack.picker.value_of(IN_FLIGHT) == 0, "nothing in flight")


@both_modes
def test_a_picker_that_refuses_connections(make_stack: MakeStack, fail_open: bool) -> None:
    stack = make_stack(fail_open=fail_open)

    stack.picker.kill()
    with httpx.Client() as client:
        answers = [
            client.post(f"{stack.url}{COMPLETIONS}", content=BODY, headers=JSON),
            client.post(f"{stack.url}/echo", content=iter([b"chunk ", b"by chunk"])),
            client.get(f"{stack.url}/v1/models"),
        ]

    assert [answer.status_code for answer in answers] == [200 if fail_open else 503] * 3
    if fail_open:
        assert answers[1].content == b"chunk by chunk"


def test_a_frozen_picker_holds_nobody_for_ever(make_stack: MakeStack) -> None:
    closing, opening = (make_stack(fail_open=fail_open) for fail_open in (False, True))
    stacks = (closing, opening)

    with ThreadPoolExecutor(len(stacks)) as threads:
        for stack in stacks:
            stack.picker.pause()
        caught = [threads.submit(complete, stack) for stack in stacks]
        for stack in stacks:
            stack.wait_healthy(0)
        later = [complete(stack).status_code for stack in stacks]

        assert later == [503, 200]
        assert [each.result().status_code for each in caught] == [503, 200]


@both_modes
def test_a_picker_that_is_killed_while_events_stream(
    make_stack: MakeStack, model_server: ScriptedServer, fail_open: bool
) -> None:
    stack = make_stack(servers=[model_server.address], fail_open=fail_open)
    gate = Gate()

    def stream_behind_gate(request: Received, reply: Reply) -> None:
        reply.start(EVENT_STREAM)
        reply.piece(b"data: 1\n\n")
        gate.wait()
        reply.piece(b"data: 2\n\n")
        reply.end()

    model_server.script = stream_behind_gate
    url = f"{stack.url}{COMPLETIONS}"
    with httpx.stream("POST", url, content=BODY, headers=JSON) as answer:
        events = answer.iter_raw()
        first = next(events)
        stack.picker.kill()
        wait_until(lambda: stack.gateway.stats(FAILED)[FAILED] == 1, "the loss is noticed")
        gate.open()
        if fail_open:
            rest = list(events)
        else:
            with pytest.raises(httpx.RemoteProtocolError):
                list(events)
            rest = []

    assert first == b"data: 1\n\n"
    assert rest == ([b"data: 2\n\n"] if fail_open else [])


@both_modes
def test_a_picker_that_is_killed_and_started_again_under_load(
    make_stack: MakeStack, fail_open: bool
) -> None:
    stack = make_stack(fail_open=fail_open)

    with Load(f"{stack.url}{COMPLETIONS}", BODY) as load:
        load.wait_for_more("200")
        stack.picker.kill()
        load.wait_for_more("200" if fail_open else "503")
        stack.picker.start()
        served = wait_for_answer(stack, 200, SERVED)
        load.wait_for_more("200")

    assert set(load.outcomes) == ({"200"} if fail_open else {"200", "503"})
    assert served.headers[SERVED] in map(str, stack.servers)
    wait_for_nothing_in_flight(stack)


@both_modes
def test_a_picked_endpoint_that_refuses_connections(
    make_stack: MakeStack, ports: PortSource, fail_open: bool
) -> None:
    stack = make_stack(servers=[Address("127.0.0.1", ports.take())], fail_open=fail_open)

    answers = [complete(stack), httpx.get(f"{stack.url}/v1/models")]

    assert [answer.status_code for answer in answers] == [503, 503]
    wait_for_nothing_in_flight(stack)


ENDPOINT_ERRORS = "epp_endpoint_errors_total"
SHUT = {f"upstream.maintenance_mode.{PICKED}": 100}


@both_modes
def test_errors_that_envoy_makes_by_itself_are_no_endpoints(
    make_stack: MakeStack, fail_open: bool
) -> None:
    stack = make_stack(fail_open=fail_open, runtime=SHUT)

    answers = [complete(stack), httpx.get(f"{stack.url}/v1/models")]

    assert [answer.status_code for answer in answers] == [503, 503]
    details = '"details":"maintenance_mode"'
    wait_until(lambda: details in stack.access_log.read_text(), "Envoy's word for it")
    wait_for_nothing_in_flight(stack)
    assert 'epp_responses_total{code_class="5xx"} 2' in stack.picker.metrics()
    assert stack.picker.value_of(ENDPOINT_ERRORS) == 0


@both_modes
def test_a_model_server_that_can_not_be_reached_is_at_fault(
    make_stack: MakeStack, ports: PortSource, fail_open: bool
) -> None:
    stack = make_stack(servers=[Address("127.0.0.1", ports.take())], fail_open=fail_open)

    complete(stack)

    wait_for_nothing_in_flight(stack)
    assert stack.picker.value_of(ENDPOINT_ERRORS) == 1


def test_a_model_server_that_dies_before_it_answers(
    scripted_stack: Stack, model_server: ScriptedServer
) -> None:
    model_server.script = lambda request, reply: reply.reset()

    answer = complete(scripted_stack)

    assert answer.status_code == 503
    assert len(model_server.received) == 1
    wait_for_nothing_in_flight(scripted_stack)


def test_a_model_server_that_dies_while_it_answers(
    scripted_stack: Stack, model_server: ScriptedServer
) -> None:
    gate = Gate()

    def break_off(request: Received, reply: Reply) -> None:
        reply.start(EVENT_STREAM)
        reply.piece(b"data: 1\n\n")
        gate.wait()
        reply.reset()

    model_server.script = break_off
    url = f"{scripted_stack.url}{COMPLETIONS}"
    with httpx.stream("POST", url, content=BODY, headers=JSON) as answer:
        events = answer.iter_raw()
        first = next(events)
        gate.open()
        with pytest.raises(httpx.RemoteProtocolError):
            list(events)

    assert first == b"data: 1\n\n"
    wait_for_nothing_in_flight(scripted_stack)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_errors_of_model_servers_are_relayed(
    scripted_stack: Stack, model_server: ScriptedServer, status: int
) -> None:
    error = b'{"error": {"message": "out of memory"}}'
    model_server.script = lambda request, reply: reply.whole(error, status=status)

    answer = complete(scripted_stack)

    assert answer.status_code == status
    assert answer.content == error
    assert REASON not in answer.headers
    assert len(model_server.received) == 1
    wait_for_nothing_in_flight(scripted_stack)


@both_modes
def test_a_pool_without_endpoints_is_told_from_a_failure(
    make_stack: MakeStack, fail_open: bool
) -> None:
    stack = make_stack(fail_open=fail_open, pool=())

    empty = complete(stack)
    stack.write_pool(stack.servers[:1], fail_open=fail_open)
    filled = wait_for_answer(stack, 200, SERVED)
    stack.write_pool((), fail_open=fail_open)
    emptied = wait_for_answer(stack, 503, REASON)
    stack.write_pool(stack.servers[1:2], fail_open=fail_open)
    filled_again = wait_for_answer(stack, 200, SERVED)

    assert empty.status_code == 503
    assert empty.headers[REASON] == emptied.headers[REASON] == "rejected-no-endpoints"
    assert filled.headers[SERVED] == str(stack.servers[0])
    assert filled_again.headers[SERVED] == str(stack.servers[1])


def test_another_failure_mode_holds_without_a_restart(
    make_stack: MakeStack, model_server: ScriptedServer
) -> None:
    """An overloaded picker shows its mode: it rejects, or picks without a look at the body."""
    stack = make_stack(
        servers=[model_server.address], fail_open=False, picker_flags=["--max-streams=2"]
    )
    gate = Gate()

    def hold(request: Received, reply: Reply) -> None:
        reply.start(EVENT_STREAM)
        reply.piece(b"data: 1\n\n")
        gate.wait()
        reply.end()

    url = f"{stack.url}{COMPLETIONS}"
    with ExitStack() as held:
        model_server.script = hold
        for _ in range(2):
            held.enter_context(httpx.stream("POST", url, content=BODY, headers=JSON))
        model_server.script = lambda request, reply: reply.whole()
        closed = complete(stack)
        stack.write_pool(stack.servers, fail_open=True)
        opened = wait_for_answer(stack, 200, SERVED)
        stack.write_pool(stack.servers, fail_open=False)
        closed_again = wait_for_answer(stack, 503, "retry-after")
        gate.open()

    assert closed.status_code == 503
    assert closed.headers["retry-after"] == closed_again.headers["retry-after"]
    assert opened.headers[SERVED] == str(model_server.address)
    assert model_server.received[-1].body == BODY
