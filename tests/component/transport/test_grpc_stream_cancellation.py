from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator

import pytest
from structlog.testing import capture_logs

from epp.transport.streams import Outlet
from tests.fakes.transport.streams import (
    Call,
    CountingObserver,
    Opened,
    Serving,
    SilentHandler,
    StreamClient,
    TellingHandler,
)

Reach = Callable[[StreamClient, Opened], Awaitable[tuple[Call, TellingHandler]]]


class Flooding(SilentHandler):
    """Answers any message with more than a peer's window takes."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__(outlet)
        self.generators_open = 0

    def on_message(self, message: bytes) -> None:
        super().on_message(message)
        if message == b"flood":
            self.outlet.send(self.flood())
        if message == b"flood later":
            asyncio.get_running_loop().call_soon(self.outlet.send, self.flood())

    def flood(self) -> Iterator[bytes]:
        self.generators_open += 1
        try:
            while True:
                yield bytes(62_000)
        finally:
            self.generators_open -= 1
            self.events.put_nowait("generator closed")


async def nothing_sent(client: StreamClient, opened: Opened) -> tuple[Call, TellingHandler]:
    call = client.open()
    return call, await opened.next()


async def answer_owed(client: StreamClient, opened: Opened) -> tuple[Call, TellingHandler]:
    call = client.open()
    await call.write(b"question")
    handler = await opened.next()
    await handler.events.get()
    return call, handler


async def answered(client: StreamClient, opened: Opened) -> tuple[Call, TellingHandler]:
    call, handler = await answer_owed(client, opened)
    handler.outlet.send((b"answer",))
    await call.read()
    return call, handler


async def half_closed(client: StreamClient, opened: Opened) -> tuple[Call, TellingHandler]:
    call, handler = await answer_owed(client, opened)
    await call.done_writing()
    assert await handler.events.get() == "half-close"
    return call, handler


async def blocked_in_turn(client: StreamClient, opened: Opened) -> tuple[Call, TellingHandler]:
    return await _blocked(client, opened, b"flood")


async def blocked_out_of_turn(client: StreamClient, opened: Opened) -> tuple[Call, TellingHandler]:
    return await _blocked(client, opened, b"flood later")


async def _blocked(
    client: StreamClient, opened: Opened, message: bytes
) -> tuple[Call, TellingHandler]:
    call = client.open()
    await call.write(message)
    handler = await opened.next()
    await handler.events.get()
    await call.read()
    return call, handler


STATES: list[Reach] = [
    nothing_sent,
    answer_owed,
    answered,
    half_closed,
    blocked_in_turn,
    blocked_out_of_turn,
]


def named_by_state(state: Reach) -> str:
    return getattr(state, "__name__", "").replace("_", " ")


@pytest.mark.parametrize("reach", STATES, ids=named_by_state)
async def test_a_cancelled_stream_is_told_to_its_handler_exactly_once(
    reach: Reach, serving: Serving
) -> None:
    observer = CountingObserver()
    opened = Opened(Flooding)
    async with serving(opened, observer=observer) as client:
        call, handler = await reach(client, opened)

        call.cancel()

        events = [await handler.events.get()]
        while events[-1] != "disconnect":
            events.append(await handler.events.get())
        assert "half-close" not in events
    assert isinstance(handler, Flooding)
    assert handler.generators_open == 0
    assert "disconnect" not in drained(handler)
    assert observer.codes == ["Canceled"]


@pytest.mark.parametrize("reach", STATES, ids=named_by_state)
async def test_a_cancelled_stream_with_nothing_left_to_do_counts_as_ok(
    reach: Reach, serving: Serving
) -> None:
    class Over(Flooding):
        def on_disconnect(self) -> bool:
            super().on_disconnect()
            return True

    observer = CountingObserver()
    opened = Opened(Over)
    async with serving(opened, observer=observer) as client:
        call, handler = await reach(client, opened)

        call.cancel()

        while await handler.events.get() != "disconnect":
            pass
    assert observer.codes == ["OK"]


@pytest.mark.parametrize("reach", STATES, ids=named_by_state)
async def test_the_outlet_of_a_cancelled_stream_drops_what_comes_later(
    reach: Reach, serving: Serving
) -> None:
    opened = Opened(Flooding)
    with capture_logs() as logs:
        async with serving(opened) as client:
            call, handler = await reach(client, opened)
            call.cancel()
            while await handler.events.get() != "disconnect":
                pass
            await asyncio.sleep(0)

            handler.outlet.send((b"late",))
            handler.outlet.close()

    assert not logs


@pytest.mark.parametrize("reach", STATES, ids=named_by_state)
async def test_a_server_that_stops_tells_handlers_of_streams_it_cuts(
    reach: Reach, serving: Serving
) -> None:
    observer = CountingObserver()
    opened = Opened(Flooding)
    async with serving(opened, observer=observer) as client:
        call, handler = await reach(client, opened)

        await client.server.stop(0)

        call.cancel()
    assert drained(handler).count("disconnect") == 1
    assert observer.codes == ["Unavailable"]


async def test_a_stream_closed_before_the_peer_left_is_not_disconnected(serving: Serving) -> None:
    class ClosingFlood(Flooding):
        def on_message(self, message: bytes) -> None:
            super().on_message(message)
            self.outlet.close()

    opened = Opened(ClosingFlood)
    async with serving(opened) as client:
        call, handler = await blocked_in_turn(client, opened)
        call.cancel()
        assert await handler.events.get() == "generator closed"

    assert drained(handler) == []


async def test_a_handler_that_fails_to_disconnect_is_logged_and_the_others_live_on(
    serving: Serving,
) -> None:
    class Stubborn(TellingHandler):
        def on_disconnect(self) -> bool:
            super().on_disconnect()
            raise ValueError("broken")

    opened = Opened(Stubborn)
    async with serving(opened) as client:
        call = client.open()
        await call.write(b"x")
        await call.read()
        handler = await opened.next()
        neighbour = client.open()
        with capture_logs() as logs:
            call.cancel()
            while await handler.events.get() != "disconnect":
                pass
        assert [(entry["event"], entry["stream"]) for entry in logs] == [
            ("stream handler failed to disconnect", "a")
        ]

        await neighbour.write(b"y")
        assert await neighbour.read() == b"y"


async def test_cancelled_streams_leave_nothing_behind(serving: Serving) -> None:
    remains: list[weakref.ref[object]] = []

    class Watched(Flooding):
        def __init__(self, outlet: Outlet) -> None:
            super().__init__(outlet)
            remains.extend((weakref.ref(self), weakref.ref(outlet)))

    opened = Opened(Watched)
    async with serving(opened) as client:
        for round_number in range(120):
            await reach_and_cancel(STATES[round_number % len(STATES)], client, opened)
        survivor = client.open()
        await survivor.write(b"x")
        last = await opened.next()
        await last.events.get()

        gc.collect()
        alive = {type(item()).__name__ for item in remains if item() is not None}
        assert sum(item() is not None for item in remains) == 2, alive


async def reach_and_cancel(reach: Reach, client: StreamClient, opened: Opened) -> None:
    call, handler = await reach(client, opened)
    call.cancel()
    while await handler.events.get() != "disconnect":
        pass


def drained(handler: TellingHandler) -> list[object]:
    events = []
    while not handler.events.empty():
        events.append(handler.events.get_nowait())
    return events
