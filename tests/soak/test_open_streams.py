"""A thousand open streams in every state, ended in every way: nothing of them stays behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.pickers.held_streams import FIRST_HALF, End, HeldStream, State, all_of
from tests.fakes.programs.serving import ServingPicker, VitalSigns, serving_picker
from tests.fakes.transport.relay import Relay, relay_to

SECONDS = float(os.environ.get("EPP_SOAK_HOLD_SECONDS", "120"))
STREAMS = int(os.environ.get("EPP_SOAK_STREAMS", "1000"))
ROUNDS = max(6, int(SECONDS / 20))
WARM_UP_ROUNDS = 2
"""Rounds in which allocators and caches of the process grow to their size."""

MIB = 2**20
LARGEST_BASE_BYTES = 150 * MIB
LARGEST_STREAM_BYTES = 200 * 1024
LARGEST_GROWTH_BYTES = 8 * MIB
"""Of the process holding its streams, from the end of the warm-up to the last round. A leak of
2 KiB per stream would be as much. Idle memory would tell less: it is given back in its time."""
SPARE_FILES = 3
"""What watches the pool file may be opened a moment after the base was taken."""


class Crowd:
    """Many streams, as many in each state and with each end."""

    def __init__(self, streams: list[HeldStream], relays: dict[End, Relay]) -> None:
        self._streams = streams
        self._relays = relays

    def count(self, *states: State) -> int:
        """How many streams are in one of these states."""
        return sum(stream.state in states for stream in self._streams)

    async def hold(self, until: float) -> None:
        """Keep all streams as they are; those that stream get a token a second."""
        streaming = [stream for stream in self._streams if stream.state is State.STREAMING]
        while time.monotonic() < until:
            await all_of(stream.token() for stream in streaming)
            await asyncio.sleep(1)  # holding is what this test is about

    async def end(self) -> None:
        """End each stream in its way."""
        await all_of(stream.finish() for stream in self._streams)
        for end, relay in self._relays.items():
            relay.break_all(reset=end is End.CONNECTION_RESET)


@asynccontextmanager
async def crowd(picker: ServingPicker) -> AsyncIterator[Crowd]:
    """Open the streams, those of each end on a connection of their own."""
    async with AsyncExitStack() as stack:
        relays: dict[End, Relay] = {}
        clients = {}
        for end in End:
            port = picker.ext_proc_port
            if end.takes_the_connection:
                relays[end] = await stack.enter_async_context(relay_to(port))
                port = relays[end].port
            clients[end] = await stack.enter_async_context(gateway_client(port))
        kinds = list(product(State, End))
        streams = [
            HeldStream(clients[end], state, end)
            for state, end in (kinds[number % len(kinds)] for number in range(STREAMS))
        ]
        await all_of(stream.open() for stream in streams)
        yield Crowd(streams, relays)


async def becomes(picker: ServingPicker, claim: Callable[[VitalSigns], bool]) -> VitalSigns:
    """The first vital signs of which `claim` holds."""
    seen: list[VitalSigns] = []

    def holds() -> bool:
        seen[:] = [picker.vital_signs()]
        return claim(seen[0])

    try:
        await eventually(holds, timeout_seconds=30)
    except TimeoutError:
        pytest.fail(f"never became what it should: {seen}")
    return seen[0]


async def hold_a_crowd(picker: ServingPicker, until: float) -> VitalSigns:
    """One round; gives the vital signs from shortly before the streams end."""
    async with crowd(picker) as streams:
        await becomes(picker, all_are_held(streams))
        await streams.hold(until)
        held = await becomes(picker, all_are_held(streams))
        await streams.end()
        await becomes(picker, lambda now: now.nothing_is_held)
    return held


@pytest.mark.soak
@pytest.mark.timeout(SECONDS * 2 + 600)
@pytest.mark.parametrize("transport", ["grpc", "native"])
async def test_what_streams_hold_is_given_back_round_after_round(
    tmp_path: Path, transport: str
) -> None:
    with serving_picker(tmp_path, [f"--transport={transport}"]) as picker:
        base = picker.vital_signs()
        print(f"\nbase: {base.resident_bytes / MIB:.1f} MiB, {base.open_files} files")
        started = time.monotonic()
        held: list[VitalSigns] = []
        for number in range(1, ROUNDS + 1):
            held.append(await hold_a_crowd(picker, started + SECONDS * number / ROUNDS))
            idle = await becomes(
                picker, lambda now: now.open_files <= base.open_files + SPARE_FILES
            )
            report(number, base, held[-1], idle)
        assert base.resident_bytes < LARGEST_BASE_BYTES
        assert held[-1].resident_bytes - base.resident_bytes < LARGEST_STREAM_BYTES * STREAMS
        growth = held[-1].resident_bytes - held[WARM_UP_ROUNDS - 1].resident_bytes
        assert growth < LARGEST_GROWTH_BYTES
        assert "exception" not in picker.output().lower()


def all_are_held(streams: Crowd) -> Callable[[VitalSigns], bool]:
    """Whether the gauges tell of every stream."""
    decided = streams.count(State.DECIDED, State.STREAMING)
    buffered = streams.count(State.BODY_HALF_SENT) * len(FIRST_HALF)

    def holds(now: VitalSigns) -> bool:
        return (now.streams, now.in_flight, now.running, now.buffered_bytes) == (
            STREAMS,
            decided,
            decided,
            buffered,
        )

    return holds


def report(number: int, base: VitalSigns, held: VitalSigns, idle: VitalSigns) -> None:
    """Print what a round measured."""
    per_stream = (held.resident_bytes - base.resident_bytes) / STREAMS / 1024
    print(
        f"round {number}: {STREAMS} streams held in {held.resident_bytes / MIB:.1f} MiB"
        f" ({per_stream:.1f} KiB each over the base), idle again"
        f" {idle.resident_bytes / MIB:.1f} MiB, {idle.open_files} files"
    )
