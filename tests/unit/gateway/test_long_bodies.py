"""Decisions about long bodies, which take several turns of the event loop."""

from __future__ import annotations

import asyncio
import gzip
import json
import random

import pytest

from epp.app.request_path import RequestPathSettings
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.incoming import LONG_BODY
from tests.fakes.eventually import eventually
from tests.fakes.pickers.gateway_client import header_map
from tests.unit.gateway.test_sequences import (
    ADDRESS,
    FULL_DUPLEX,
    Gateway,
    Picker,
    assert_decided,
    assert_returned,
    make_picker,
)

MIB = 1024 * 1024


def chat(size: int) -> bytes:
    text = "some words\n" * (size // 11)
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()


def begin(picker: Picker, **headers: str) -> Gateway:
    gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX)
    fields = {":method": "POST", ":path": "/v1/chat/completions", "x-request-id": "t", **headers}
    assert gateway.send("request_headers", headers=header_map(fields)) == []
    return gateway


async def done(picker: Picker) -> None:
    await eventually(lambda: len(picker.path.tasks) == 0)


class Turns:
    """Counts turns of the event loop while a decision is pending; others are answered in each."""

    def __init__(self, picker: Picker) -> None:
        self._picker = picker
        self.count = 0

    def next(self) -> None:
        if len(self._picker.path.tasks) == 0:
            return
        self.count += 1
        other = begin(self._picker)
        answers = other.send("request_body", body=chat(1000), end_of_stream=True)
        assert_decided(answers[:1], "request_headers")
        other.transaction.on_disconnect()
        asyncio.get_running_loop().call_soon(self.next)


@pytest.mark.parametrize(
    ("headers", "least_turns"),
    [
        pytest.param({}, 4, id="as it is"),
        pytest.param({"x-gateway-model-name-rewrite": "other"}, 5, id="with another model"),
        pytest.param({"content-encoding": "gzip"}, 25, id="compressed"),
    ],
)
async def test_others_have_their_turn_while_a_long_body_is_read(
    headers: dict[str, str], least_turns: int
) -> None:
    picker = make_picker(config="")
    gateway = begin(picker, **headers)
    body = chat(16 * MIB)
    if "content-encoding" in headers:
        noise = random.Random(1).randbytes(6 * MIB).hex().encode()
        body = gzip.compress(body[:-4] + noise + body[-4:], 1)
        assert len(body) > LONG_BODY

    turns = Turns(picker)
    assert gateway.send("request_body", body=body, end_of_stream=True) == []
    turns.next()
    await done(picker)

    assert turns.count >= least_turns
    answers = gateway.outlet.take()
    assert_decided(answers[:1], "request_headers")
    upstream = assert_returned(answers[1:], "request_body", ended=True)
    assert (upstream == body) is ("x-gateway-model-name-rewrite" not in headers)
    gateway.transaction.on_disconnect()


async def test_a_body_that_is_not_long_is_answered_at_once() -> None:
    picker = make_picker(config="")
    gateway = begin(picker)

    answers = gateway.send("request_body", body=chat(LONG_BODY * 11 // 13), end_of_stream=True)

    assert answers[0].destination == ADDRESS
    assert len(picker.path.tasks) == 0
    gateway.transaction.on_disconnect()


async def test_a_client_that_leaves_meanwhile_leaves_nothing_behind() -> None:
    picker = make_picker(config="")
    gateway = begin(picker)
    gateway.send("request_body", body=chat(4 * MIB), end_of_stream=True)
    await asyncio.sleep(0)

    gateway.transaction.on_disconnect()
    await done(picker)

    assert gateway.outlet.answers == []
    assert picker.in_flight == 0
    assert picker.path.guard.buffered_bytes == 0


async def test_a_response_that_does_not_wait_goes_through_and_nothing_is_picked() -> None:
    picker = make_picker(config="")
    gateway = begin(picker)
    gateway.send("request_body", body=chat(4 * MIB), end_of_stream=True)
    await asyncio.sleep(0)

    answers = gateway.send("response_headers", headers=header_map({":status": "413"}))
    await done(picker)

    assert [answer.kind for answer in answers] == ["response_headers"]
    assert gateway.outlet.answers == []
    assert picker.in_flight == 0


async def test_trailers_that_come_meanwhile_are_answered_after_the_body() -> None:
    picker = make_picker(config="")
    gateway = begin(picker)
    gateway.send("request_body", body=chat(2 * MIB))

    assert gateway.send("request_trailers") == []
    await done(picker)

    kinds = [answer.kind for answer in gateway.outlet.take()]
    assert kinds[0] == "request_headers"
    assert set(kinds[1:-1]) == {"request_body"}
    assert kinds[-1] == "request_trailers"
    gateway.transaction.on_disconnect()


async def test_the_gateway_may_close_its_half_meanwhile() -> None:
    picker = make_picker(config="")
    gateway = begin(picker)
    gateway.send("request_body", body=chat(2 * MIB), end_of_stream=True)

    gateway.transaction.on_half_close()
    await done(picker)

    assert_decided(gateway.outlet.take()[:1], "request_headers")
    assert gateway.outlet.code is not None


async def test_a_long_body_that_is_broken_is_refused() -> None:
    picker = make_picker(config="")
    gateway = begin(picker)

    gateway.send("request_body", body=chat(2 * MIB)[:-1], end_of_stream=True)
    await done(picker)

    [answer] = gateway.outlet.take()
    assert answer.status == 400
    assert picker.path.guard.buffered_bytes == 0


async def test_turns_of_others_count_towards_the_deadline() -> None:
    settings = RequestPathSettings(director=DirectorSettings(decision_timeout=0.0))
    picker = make_picker(settings, config="")
    gateway = begin(picker)

    gateway.send("request_body", body=chat(2 * MIB), end_of_stream=True)
    await done(picker)

    [answer] = gateway.outlet.take()
    assert answer.status == 503
    assert picker.in_flight == 0
