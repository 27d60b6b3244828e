"""Pickers that are replaced one by one, and how each of them ends."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from epp.gateway.service import SERVICE_NAME
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.programs.load import Load
from tests.fakes.programs.processes import MODEL, Picker
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.scripted_server import EVENT_STREAM, Gate, Received, Reply, ScriptedServer
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

BODY = json.dumps({"model": MODEL, "prompt": "Hello", "max_tokens": 1}).encode()
JSON = {"content-type": "application/json"}
PATH = "/v1/completions"
FIRST, LAST = b"data: 1\n\n", b"data: 2\n\n"
ALLOWED = "http.inference.ext_proc.failure_mode_allowed"
FAILED = "http.inference.ext_proc.streams_failed"

Health = health_pb2.HealthCheckResponse
both_modes = pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])


def test_replacing_pickers_one_by_one_loses_no_request(make_stack: MakeStack) -> None:
    stacks = [
        make_stack(fail_open=fail_open, pickers=2, picker_flags=["--drain-timeout=4s"])
        for fail_open in (False, True)
    ]

    exit_codes = []
    with ExitStack() as running:
        loads = [running.enter_context(Load(f"{stack.url}{PATH}", BODY)) for stack in stacks]
        for pickers in zip(*(stack.pickers for stack in stacks), strict=True):
            for picker in pickers:
                picker.signal(signal.SIGTERM)
            exit_codes += [picker.wait() for picker in pickers]
            for picker in pickers:
                picker.start()
            for stack, load in zip(stacks, loads, strict=True):
                stack.wait_healthy(2)
                load.wait_for_more("200")

    assert exit_codes == [0] * 4
    for stack, load in zip(stacks, loads, strict=True):
        assert set(load.outcomes) == {"200"}
        assert stack.gateway.stats(ALLOWED)[ALLOWED] == 0, "a request went on without a pick"


def health_of(picker: Picker, service: str = SERVICE_NAME) -> int:
    """What the health port answers."""
    with grpc.insecure_channel(str(picker.health)) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        return int(health_pb2_grpc.HealthStub(channel).Check(request, timeout=10).status)


async def pick_of(picker: Picker) -> str:
    """What the picker answers to a gateway that still asks it."""
    async with gateway_client(picker.ext_proc.port) as gateway:
        exchange = gateway.exchange()
        await exchange.post(BODY)
        destination = await exchange.picked()
        await exchange.half_close()
        return destination


class HeldEvents:
    """A script that sends one event, and the rest once it may."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, request: Received, reply: Reply) -> None:
        reply.start(EVENT_STREAM)
        reply.piece(FIRST)
        self.gate.wait()
        reply.piece(LAST)
        reply.end()


@contextmanager
def open_stream(stack: Stack) -> Iterator[Iterator[bytes]]:
    """An event stream whose first event has arrived; the iterator gives the others."""
    with httpx.stream("POST", f"{stack.url}{PATH}", content=BODY, headers=JSON) as answer:
        events = answer.iter_raw()
        assert next(events) == FIRST
        yield events


@both_modes
def test_a_picker_that_drains_serves_on_until_it_is_told_again(
    make_stack: MakeStack, model_server: ScriptedServer, fail_open: bool
) -> None:
    stack = make_stack(
        servers=[model_server.address], fail_open=fail_open, picker_flags=["--drain-timeout=1h"]
    )
    picker = stack.picker
    model_server.script = held = HeldEvents()

    before = health_of(picker)
    with open_stream(stack) as events:
        picker.signal(signal.SIGTERM)
        picker.wait_for_line('"draining"')
        during = health_of(picker), health_of(picker, "liveness")
        stack.wait_healthy(0)
        destination = asyncio.run(pick_of(picker))
        held.gate.open()
        rest = list(events)
    picker.signal(signal.SIGTERM)
    exit_code = picker.wait()

    assert (before, during) == (Health.SERVING, (Health.NOT_SERVING, Health.SERVING))
    assert destination == str(model_server.address)
    assert rest == [LAST]
    assert exit_code == 0


@both_modes
def test_open_streams_end_within_the_grace(
    make_stack: MakeStack, model_server: ScriptedServer, fail_open: bool
) -> None:
    stack = make_stack(
        servers=[model_server.address], fail_open=fail_open, picker_flags=["--shutdown-grace=1h"]
    )
    picker = stack.picker
    model_server.script = held = HeldEvents()

    with open_stream(stack) as events:
        picker.signal(signal.SIGTERM)
        wait_until(lambda: not accepts(picker), "the picker takes no new streams")
        still_running = picker.is_running
        held.gate.open()
        rest = list(events)
    exit_code = picker.wait()

    assert still_running
    assert rest == [LAST]
    assert exit_code == 0


@both_modes
def test_streams_beyond_the_grace_are_given_up_visibly(
    make_stack: MakeStack, model_server: ScriptedServer, fail_open: bool
) -> None:
    """FailOpen: Envoy goes on without the picker, nothing is lost."""
    stack = make_stack(
        servers=[model_server.address], fail_open=fail_open, picker_flags=["--shutdown-grace=100ms"]
    )
    model_server.script = held = HeldEvents()

    with open_stream(stack) as events:
        exit_code = stack.picker.stop()
        wait_until(lambda: stack.gateway.stats(FAILED)[FAILED] == 1, "the loss is noticed")
        held.gate.open()
        if fail_open:
            assert list(events) == [LAST]
        else:
            with pytest.raises(httpx.RemoteProtocolError):
                list(events)

    assert exit_code == 0


def accepts(picker: Picker) -> bool:
    """Whether a connection to the ext_proc port can be opened."""
    try:
        socket.create_connection(picker.ext_proc, timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True
