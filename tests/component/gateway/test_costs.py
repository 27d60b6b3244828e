"""What a request and its streamed answer cost on the native transport, in counts of everything
but time. A bound that gets in the way of a better reason may be raised; say why.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from epp.transport.native.frames import DATA, WINDOW_UPDATE
from tests.benchmarks.traffic import FULL_DUPLEX, Traffic, traffic
from tests.fakes.pickers.wired_picker import WiredPicker
from tests.fakes.transport.http2_peer import frames_in

# With what was counted on CPython 3.11.
MOST_CALLS_PER_CHUNK = 36  # 35
MOST_BUILT_IN_CALLS_PER_CHUNK = 30  # 28
MOST_CALLS_PER_REQUEST = 840  # 800, of 1 KB and 5 chunks of response
MOST_BUILT_IN_CALLS_PER_REQUEST = 690  # 654
MOST_WINDOW_UPDATES_PER_MEGABYTE = 0.2  # 0.13
MOST_BLOCKS_LEFT_PER_CHUNK = 0.5  # 0.007, and what other threads of the tests take meanwhile

KILOBYTE = 1 << 10
MEGABYTE = 1 << 20
SMALL = traffic(KILOBYTE, 5, FULL_DUPLEX)
LONG = traffic(KILOBYTE, 500, FULL_DUPLEX)


@pytest.fixture
async def picker() -> AsyncIterator[WiredPicker]:
    """One that has made what is made once."""
    picker = warm(WiredPicker())
    yield picker
    assert picker.in_flight == 0
    picker.close()


def warm(picker: WiredPicker) -> WiredPicker:
    for _ in range(20):
        play(picker, SMALL)
    return picker


def play(picker: WiredPicker, exchange: Traffic) -> list[list[bytes]]:
    """The writes for each message, and for the end of the stream."""
    reads = picker.reads_of(*exchange.request, *exchange.response)
    return [picker.read(each) for each in reads]


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Calls of functions: `call` of those in Python, `c_call` of built-in ones."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        counts[event] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield counts
    finally:
        sys.setprofile(before)
        counts["c_call"] -= 1  # the one that ended the count


async def test_what_one_read_brings_is_answered_in_one_write(picker: WiredPicker) -> None:
    writes = [len(each) for each in play(picker, LONG)]

    assert writes[0] == 0, "headers wait for the body"
    assert set(writes[1:]) == {1}


async def test_many_messages_of_many_streams_in_one_read_are_answered_in_one_write(
    picker: WiredPicker,
) -> None:
    streams = [picker.reads_of(*SMALL.request, *SMALL.response) for _ in range(64)]

    writes = picker.read(b"".join(each for stream in streams for each in stream))

    assert len(writes) == 1
    assert data_frames(writes) == len(streams)


def data_frames(writes: list[bytes]) -> int:
    return sum(one.kind == DATA for write in writes for one in frames_in(write))


async def test_each_message_is_answered_in_one_frame_and_the_pick_is_one_with_its_body(
    picker: WiredPicker,
) -> None:
    frames = [data_frames(writes) for writes in play(picker, LONG)]

    headers, body, *response, end = frames
    assert (headers, body, end) == (0, 1, 0)
    assert set(response) == {1}


async def test_windows_are_opened_in_large_steps(picker: WiredPicker) -> None:
    large = traffic(MEGABYTE, 1, FULL_DUPLEX)

    writes = [write for _ in range(32) for each in play(picker, large) for write in each]

    updates = sum(one.kind == WINDOW_UPDATE for write in writes for one in frames_in(write))
    assert 0 < updates <= MOST_WINDOW_UPDATES_PER_MEGABYTE * 32


async def test_a_request_costs_few_calls(picker: WiredPicker) -> None:
    with counted_calls() as calls:
        play(picker, SMALL)

    assert calls["call"] <= MOST_CALLS_PER_REQUEST
    assert calls["c_call"] <= MOST_BUILT_IN_CALLS_PER_REQUEST


async def test_a_further_chunk_costs_few_calls(picker: WiredPicker) -> None:
    with counted_calls() as few:
        play(picker, SMALL)
    with counted_calls() as many:
        play(picker, LONG)

    chunks = len(LONG.response) - len(SMALL.response)
    assert (many["call"] - few["call"]) / chunks <= MOST_CALLS_PER_CHUNK
    assert (many["c_call"] - few["c_call"]) / chunks <= MOST_BUILT_IN_CALLS_PER_CHUNK


async def test_a_response_leaves_nothing_behind_however_long_it_gets(picker: WiredPicker) -> None:
    *reads, last, end = picker.reads_of(*LONG.request, *LONG.response)
    for each in reads[:200]:
        picker.read(each)
    gc.collect()
    before = sys.getallocatedblocks()
    for each in reads[200:]:
        picker.read(each)
    gc.collect()
    left = sys.getallocatedblocks() - before
    picker.read(last + end)

    assert left / len(reads[200:]) <= MOST_BLOCKS_LEFT_PER_CHUNK


def count_what_is_asked(loop: asyncio.AbstractEventLoop) -> Counter[str]:
    """Of the event loop, from now on."""
    asked: Counter[str] = Counter()

    def counted(name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any, **named: Any) -> Any:
            asked[name] += 1
            return ask(*arguments, **named)

        return count

    for name in ("create_task", "create_future", "call_soon", "call_at"):
        setattr(loop, name, counted(name, getattr(loop, name)))
    return asked


def test_a_request_needs_no_task_no_future_no_timer_and_no_turn_of_the_loop() -> None:
    loop = asyncio.SelectorEventLoop()
    asked = count_what_is_asked(loop)

    async def ask() -> tuple[Counter[str], Counter[str]]:
        picker = warm(WiredPicker())
        before = asked.copy()
        play(picker, LONG)
        after = asked.copy()
        picker.close()
        return before, after

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        before, after = runner.run(ask())

    assert before["create_task"] == 1, "nothing is counted"
    assert after == before
