"""Whose body is let go of when all bodies together are more than may be held."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from epp.app.request_path import RequestPathSettings
from epp.datastore.inference_pool import FailureMode
from epp.gateway.overload import OverloadLimits
from epp.gateway.upkeep import UNREAD_SECONDS
from epp.transport.streams import StatusCode
from tests.fakes.clock import Clock
from tests.fakes.pickers.collecting_outlet import CollectingOutlet
from tests.fakes.pickers.gateway_client import header_map
from tests.fakes.pickers.picker import pool
from tests.unit.gateway.test_sequences import ADDRESS, FULL_DUPLEX, Gateway, Picker, make_picker

LIMIT = 1_000_000
PROMPT = b'{"model":"m","prompt":"a"}'


class UnreadOutlet(CollectingOutlet):
    """Keeps what it is sent, as for a peer that does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.unread: list[Iterable[bytes]] = []

    def send(self, messages: Iterable[bytes]) -> None:
        self.unread.append(messages)

    def fail(self, code: StatusCode, message: str) -> None:
        super().fail(code, message)
        self.unread.clear()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def picker(clock: Clock) -> Picker:
    settings = RequestPathSettings(overload=OverloadLimits(buffered_bytes=LIMIT))
    return make_picker(settings, now=clock)


def begin(picker: Picker, outlet: CollectingOutlet | None = None) -> Gateway:
    gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX, outlet)
    fields = {":method": "POST", ":path": "/v1/completions", "x-request-id": "t"}
    gateway.send("request_headers", headers=header_map(fields))
    return gateway


def holding(picker: Picker, size: int) -> Gateway:
    gateway = begin(picker)
    assert gateway.send("request_body", body=bytes(size)) == []
    return gateway


def leave(*gateways: Gateway) -> None:
    for gateway in gateways:
        gateway.transaction.on_disconnect()


def test_the_longest_bodies_make_room_for_one_that_is_short(picker: Picker) -> None:
    longest, long, short = (holding(picker, size) for size in (600_000, 399_000, 1_000))
    honest = begin(picker)

    answers = honest.send("request_body", body=PROMPT, end_of_stream=True)

    assert answers[0].destination == ADDRESS
    assert [answer.details for answer in longest.outlet.take()] == ["epp_overloaded"]
    assert long.outlet.take() == short.outlet.take() == []
    assert picker.path.guard.buffered_bytes == 400_000
    leave(long, short, honest)
    assert picker.path.guard.buffered_bytes == 0


def test_who_holds_most_pays_itself(picker: Picker) -> None:
    others = [holding(picker, 90_000) for _ in range(10)]
    longest = holding(picker, 95_000)

    (answer,) = longest.send("request_body", body=bytes(10_000))

    assert (answer.status, answer.details) == (503, "epp_overloaded")
    assert all(other.outlet.take() == [] for other in others)
    leave(*others)


def test_when_it_fails_open_who_makes_room_is_picked_for_unread(picker: Picker) -> None:
    picker.datastore.set_pool(pool(FailureMode.FAIL_OPEN))
    longest = holding(picker, 990_000)
    honest = begin(picker)

    answers = honest.send("request_body", body=PROMPT + b" " * 20_000, end_of_stream=True)

    assert answers[0].destination == ADDRESS
    picked, *returned = longest.outlet.take()
    assert picked.destination == ADDRESS
    assert b"".join(answer.body or b"" for answer in returned) == bytes(990_000)
    leave(longest, honest)


def test_an_answer_that_nobody_reads_makes_room_but_not_one_on_its_way(
    picker: Picker, clock: Clock
) -> None:
    unread = begin(picker, UnreadOutlet())
    body = PROMPT + b" " * 900_000
    unread.send("request_body", body=body, end_of_stream=True)
    assert picker.path.guard.buffered_bytes == len(body)

    early = holding(picker, 50_000)
    (answer,) = early.send("request_body", body=bytes(60_000))
    assert answer.details == "epp_overloaded"
    assert unread.outlet.code is None

    clock.now += UNREAD_SECONDS + 1
    late = holding(picker, 50_000)
    assert late.send("request_body", body=bytes(60_000)) == []
    assert unread.outlet.code is StatusCode.UNAVAILABLE
    assert picker.path.guard.buffered_bytes == 110_000
    leave(late)


def test_a_stream_on_which_no_message_came_is_ended_in_time(picker: Picker, clock: Clock) -> None:
    silent = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX)
    upkeep = picker.path.processor.upkeep
    upkeep.end_idle(clock.now)
    assert picker.path.guard.streams == 1

    upkeep.end_idle(clock.now + 59)
    assert silent.outlet.code is None
    upkeep.end_idle(clock.now + 61)

    assert silent.outlet.code is StatusCode.UNAVAILABLE
    assert picker.path.guard.streams == 0


def test_a_stream_that_began_late_is_not_taken_for_a_silent_one(
    picker: Picker, clock: Clock
) -> None:
    late = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX)
    picker.path.processor.upkeep.end_idle(clock.now)
    fields = {":method": "POST", ":path": "/v1/completions"}
    late.send("request_headers", headers=header_map(fields))
    late.send("request_body", body=PROMPT, end_of_stream=True)

    picker.path.processor.upkeep.end_idle(clock.now + 61)

    assert late.outlet.code is None
    leave(late)
