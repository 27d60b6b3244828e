from __future__ import annotations

import asyncio
from collections.abc import Iterator

import grpc
import pytest
from structlog.testing import capture_logs

from epp.transport.grpc_aio import MessageLimits
from epp.transport.streams import Outlet, StatusCode
from tests.fakes.eventually import eventually
from tests.fakes.transport.streams import (
    CountingObserver,
    Opened,
    Serving,
    SilentHandler,
    TellingHandler,
    read_all,
)

MIB = 1024 * 1024


async def test_messages_are_answered_in_order(serving: Serving) -> None:
    async with serving(TellingHandler) as client:
        call = client.open()
        sent = [b"%d" % number for number in range(100)]

        for message in sent:
            await call.write(message)
        await call.done_writing()

        assert await read_all(call) == sent
        assert await call.code() is grpc.StatusCode.OK


async def test_an_empty_message_is_a_message_not_the_end(serving: Serving) -> None:
    async with serving(TellingHandler) as client:
        call = client.open()

        await call.write(b"")

        assert await call.read() == b""


async def test_a_greeting_sent_by_the_factory_goes_out_before_anything_is_read(
    serving: Serving,
) -> None:
    class Greeting(TellingHandler):
        def __init__(self, outlet: Outlet) -> None:
            super().__init__(outlet)
            outlet.send((b"hello",))

    async with serving(Greeting) as client:
        assert await client.open().read() == b"hello"


async def test_an_answer_out_of_turn_goes_out_while_the_next_message_is_awaited(
    serving: Serving,
) -> None:
    opened = Opened(SilentHandler)
    async with serving(opened) as client:
        call = client.open()
        await call.write(b"question")
        handler = await opened.next()
        assert await handler.events.get() == b"question"

        handler.outlet.send((b"late", b"answer"))

        assert [await call.read(), await call.read()] == [b"late", b"answer"]


async def test_messages_are_read_while_an_answer_is_owed(serving: Serving) -> None:
    opened = Opened(SilentHandler)
    async with serving(opened) as client:
        call = client.open()
        await call.write(b"first")
        handler = await opened.next()
        await call.write(b"second")

        assert [await handler.events.get(), await handler.events.get()] == [b"first", b"second"]


async def test_answers_in_and_out_of_turn_keep_their_order(serving: Serving) -> None:
    class Mixed(TellingHandler):
        def on_message(self, message: bytes) -> None:
            self.outlet.send((message + b" in turn",))
            loop = asyncio.get_running_loop()
            loop.call_soon(self.outlet.send, (message + b" soon",))
            loop.call_later(0.001, self.outlet.send, (message + b" later",))

    async with serving(Mixed) as client:
        for _ in range(50):
            call = client.open()
            for message in (b"a", b"b", b"c"):
                await call.write(message)

            answers = [await call.read() for _ in range(9)]

            for kind in (b"in turn", b"soon", b"later"):
                of_kind = [
                    answer for answer in answers if str(answer).endswith(kind.decode() + "'")
                ]
                assert of_kind == [b"%s %s" % (name, kind) for name in (b"a", b"b", b"c")]
            call.cancel()


async def test_a_stream_that_is_failed_ends_although_its_answers_are_not_read(
    serving: Serving,
) -> None:
    closed = asyncio.Event()

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield bytes(MIB)
        finally:
            closed.set()

    observer = CountingObserver()
    opened = Opened(SilentHandler)
    async with serving(opened, observer=observer) as client:
        call = client.open()
        await call.write(b"question")
        handler = await opened.next()
        assert await handler.events.get() == b"question"
        handler.outlet.send(endless())
        assert await call.read() == bytes(MIB)

        handler.outlet.fail(StatusCode.UNAVAILABLE, "enough")

        assert await handler.events.get() == "disconnect"
        await closed.wait()
        await eventually(lambda: len(observer.codes) == 1)
        call.cancel()


async def test_a_stream_closed_out_of_turn_ends_although_a_read_is_pending(
    serving: Serving,
) -> None:
    opened = Opened(SilentHandler)
    async with serving(opened) as client:
        call = client.open()
        await call.write(b"question")
        handler = await opened.next()
        await handler.events.get()

        handler.outlet.send((b"answer",))
        handler.outlet.close()

        assert await read_all(call) == [b"answer"]
        assert await call.code() is grpc.StatusCode.OK
        assert handler.events.empty()


async def test_a_stream_closed_in_turn_is_not_read_again(serving: Serving) -> None:
    class OneAnswer(TellingHandler):
        def on_message(self, message: bytes) -> None:
            super().on_message(message)
            self.outlet.close()

    opened = Opened(OneAnswer)
    async with serving(opened) as client:
        call = client.open()
        await call.write(b"first")
        assert await read_all(call) == [b"first"]

        handler = await opened.next()
        assert await handler.events.get() == b"first"
        assert handler.events.empty()


async def test_an_error_ends_the_stream_after_the_messages_before_it(serving: Serving) -> None:
    class Failing(TellingHandler):
        def on_message(self, message: bytes) -> None:
            self.outlet.send((b"some", b"data"))
            self.outlet.close(StatusCode.INVALID_ARGUMENT, "out of order")
            self.outlet.send((b"dropped",))

    async with serving(Failing) as client:
        call = client.open()
        await call.write(b"x")

        assert [await call.read(), await call.read()] == [b"some", b"data"]
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await call.details() == "out of order"


async def test_an_error_out_of_turn_ends_the_stream_although_a_read_is_pending(
    serving: Serving,
) -> None:
    opened = Opened(SilentHandler)
    async with serving(opened) as client:
        call = client.open()
        await call.write(b"question")
        handler = await opened.next()
        await handler.events.get()

        handler.outlet.close(StatusCode.UNAVAILABLE, "going away")

        assert await call.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_peer_that_half_closes_first_still_gets_its_answer(serving: Serving) -> None:
    opened = Opened(SilentHandler)
    async with serving(opened) as client:
        call = client.open()
        await call.write(b"question")
        await call.done_writing()
        handler = await opened.next()
        assert [await handler.events.get(), await handler.events.get()] == [
            b"question",
            "half-close",
        ]

        handler.outlet.send((b"late",))
        assert await call.read() == b"late"
        handler.outlet.send((b"answer",))
        handler.outlet.close()

        assert await read_all(call) == [b"answer"]
        assert await call.code() is grpc.StatusCode.OK


async def test_a_handler_that_raises_ends_its_own_stream_only(serving: Serving) -> None:
    class Fragile(TellingHandler):
        def on_message(self, message: bytes) -> None:
            if message == b"break":
                raise ValueError("broken")
            super().on_message(message)

    opened = Opened(Fragile)
    async with serving(opened) as client:
        neighbour = client.open()
        await neighbour.write(b"one")
        assert await neighbour.read() == b"one"
        await opened.next()

        with capture_logs() as logs:
            broken = client.open()
            await broken.write(b"break")
            assert await broken.code() is grpc.StatusCode.INTERNAL

        assert [(entry["event"], entry["stream"]) for entry in logs] == [
            ("stream handler failed", "a")
        ]
        assert await (await opened.next()).events.get() == "disconnect"
        await neighbour.write(b"two")
        assert await neighbour.read() == b"two"


async def test_a_factory_that_raises_ends_the_stream_with_internal(serving: Serving) -> None:
    def broken(outlet: Outlet) -> TellingHandler:
        raise ValueError("broken")

    async with serving(broken) as client:
        with capture_logs():
            assert await client.open().code() is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("in_turn", [True, False], ids=["in turn", "out of turn"])
async def test_a_generator_that_raises_ends_the_stream_with_internal(
    in_turn: bool, serving: Serving
) -> None:
    def broken() -> Iterator[bytes]:
        yield b"some"
        raise ValueError("broken")

    class Broken(SilentHandler):
        def on_message(self, message: bytes) -> None:
            if in_turn:
                self.outlet.send(broken())
            else:
                asyncio.get_running_loop().call_later(0.01, self.outlet.send, broken())

    opened = Opened(Broken)
    async with serving(opened) as client:
        with capture_logs() as logs:
            call = client.open()
            await call.write(b"x")
            assert await call.read() == b"some"
            assert await call.code() is grpc.StatusCode.INTERNAL

        assert [entry["event"] for entry in logs] == ["stream handler failed"]
        assert await (await opened.next()).events.get() == "disconnect"


@pytest.mark.parametrize("limit", [None, 25 * MIB], ids=["unlimited", "25MiB"])
async def test_a_message_of_20_mib_is_answered(limit: int | None, serving: Serving) -> None:
    async with serving(TellingHandler, limits=MessageLimits(max_receive_bytes=limit)) as client:
        body = bytes(20 * MIB)
        call = client.open()

        await call.write(body)

        assert await call.read() == body


async def test_a_message_over_the_limit_is_refused_and_the_log_names_the_flag(
    serving: Serving,
) -> None:
    limits = MessageLimits(max_receive_bytes=MIB)
    opened = Opened(TellingHandler)
    async with serving(opened, limits=limits) as client:
        with capture_logs() as logs:
            for _ in range(2):
                call = client.open()
                await call.write(bytes(20 * MIB))
                assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert "--grpc-max-recv-msg-size" in (await call.details() or "")

        assert [entry["flag"] for entry in logs] == ["--grpc-max-recv-msg-size"]
        assert await (await opened.next()).events.get() == "disconnect"


async def test_a_message_of_exactly_the_limit_is_answered(serving: Serving) -> None:
    limits = MessageLimits(max_receive_bytes=MIB)
    async with serving(TellingHandler, limits=limits) as client:
        call = client.open()
        await call.write(bytes(MIB))
        assert await call.read() == bytes(MIB)


async def test_a_generator_is_drained_only_as_fast_as_the_peer_reads(serving: Serving) -> None:
    produced = 0
    closed = asyncio.Event()

    def flood() -> Iterator[bytes]:
        nonlocal produced
        try:
            for _ in range(10_000):
                produced += 1
                yield bytes(62_000)
        finally:
            closed.set()

    class Flooding(TellingHandler):
        def on_message(self, message: bytes) -> None:
            self.outlet.send(flood())

    # bdp_probe and lookahead keep the client's window at its 64 KiB
    options = (("grpc.http2.bdp_probe", 0),)
    async with serving(Flooding, client_options=options) as client:
        call, other = client.open(), client.open()
        await call.write(b"x")
        for _ in range(10):
            await call.read()
        await other.write(b"x")
        await other.read()

        assert produced < 500
        call.cancel()
        await closed.wait()


async def test_streams_are_counted_with_the_names_of_go(serving: Serving) -> None:
    class Ending(TellingHandler):
        def on_message(self, message: bytes) -> None:
            self.outlet.close(StatusCode(int(message)), "")

    observer = CountingObserver()
    async with serving(Ending, observer=observer) as client:
        for code in StatusCode:
            call = client.open()
            await call.write(b"%d" % code)
            await call.code()

    assert observer.opened == len(StatusCode)
    assert observer.codes == [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "ResourceExhausted",
        "Unimplemented",
        "Internal",
        "Unavailable",
    ]
