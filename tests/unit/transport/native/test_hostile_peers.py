from __future__ import annotations

import random
import tracemalloc
import weakref
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epp.transport.native.budgets import Budget, HeldBytes, OpenStreams
from epp.transport.native.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    SETTINGS,
    SETTINGS_ACK,
    ErrorCode,
    Setting,
    frame,
    rst_stream,
    settings_in,
    window_update,
)
from epp.transport.native.frames import settings as settings_frame
from epp.transport.native.limits import ConnectionLimits
from epp.transport.streams import Outlet
from tests.fakes.transport.http2_peer import Peer, Recorder, data, goaway_in, message, resets_in

FEW = ConnectionLimits(burst_of_noise=500, burst_of_resets=100, max_streams=50)


def opened(make: Callable[[Outlet], Recorder] | None = None) -> Peer:
    peer = Peer(make, limits=FEW, max_held_bytes=200_000)
    peer.greet()
    peer.send(peer.headers())
    return peer


@pytest.mark.parametrize(
    "noise",
    [
        frame(PING, 0, 0, bytes(8)),
        frame(SETTINGS, 0, 0),
        settings_frame({Setting.INITIAL_WINDOW_SIZE: 1}),
        frame(PRIORITY, 0, 1, bytes(5)),
        frame(DATA, 0, 1),
        frame(DATA, 8, 1, bytes(1)),
        frame(0xBE, 0, 0, b"unknown"),
        frame(GOAWAY, 0, 0, bytes(8)),
        window_update(0, 1),
        window_update(1, 1),
    ],
    ids=[
        "PING",
        "SETTINGS",
        "changing SETTINGS",
        "PRIORITY",
        "empty DATA",
        "padding only",
        "unknown",
        "GOAWAY",
        "WINDOW_UPDATE",
        "WINDOW_UPDATE of a stream",
    ],
)
def test_a_flood_of_frames_for_nothing_ends_the_connection(noise: bytes) -> None:
    peer = opened()
    frames = peer.send(noise * 490)
    assert not peer.world.is_closing

    frames = peer.send(noise * 20)

    assert goaway_in(frames) is ErrorCode.ENHANCE_YOUR_CALM
    assert peer.handler.ends == ["disconnect"]


def test_a_frame_of_settings_costs_as_much_as_there_are() -> None:
    peer = opened()
    full = frame(SETTINGS, 0, 0, (b"\xbe\xbe" + bytes(4)) * 2_700)
    peer.send(full * 2)
    assert not peer.world.is_closing

    frames = peer.send(full)

    assert goaway_in(frames) is ErrorCode.ENHANCE_YOUR_CALM


def test_the_same_over_a_longer_time_is_no_flood() -> None:
    peer = opened()
    for _ in range(20):
        peer.send(frame(PING, 0, 0, bytes(8)) * 400)
        peer.world.advance(1)
    assert not peer.world.is_closing


def test_window_updates_that_answer_data_are_no_flood() -> None:
    peer = opened()
    for _ in range(400):
        peer.handler.outlet.send((bytes(100),))
        peer.read()
        peer.send(window_update(1, 105), window_update(0, 105), frame(PING, 0, 0, bytes(8)))
    assert not peer.world.is_closing


def test_rapid_reset_ends_the_connection() -> None:
    peer = opened()
    frames = []
    for number in range(120):
        stream_id = 2 * number + 3
        frames += peer.send(peer.headers(stream_id), rst_stream(stream_id, ErrorCode.CANCEL))

    assert goaway_in(frames) is ErrorCode.ENHANCE_YOUR_CALM
    assert len(peer.handlers) < 110


def test_streams_that_make_us_reset_them_count_as_resets() -> None:
    peer = opened()
    frames = []
    for number in range(120):
        frames += peer.send(peer.headers(2 * number + 3, extra=[("connection", "close")]))
    assert goaway_in(frames) is ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("piece", [b"", b"x" * 16_384], ids=["empty", "full"])
def test_a_header_block_without_end_ends_the_connection(piece: bytes) -> None:
    peer = opened()
    frames = peer.send(frame(HEADERS, 0, 3, b""), frame(CONTINUATION, 0, 3, piece) * 40)
    assert goaway_in(frames) is ErrorCode.ENHANCE_YOUR_CALM


def test_a_header_list_over_the_limit_is_answered_with_431() -> None:
    peer = opened()
    many = [(f"x-{number}", "v" * 900) for number in range(80)]
    block = peer.headers(3, extra=many, end=True)[9:]
    pieces = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]

    frames = peer.send(
        frame(HEADERS, 1, 3, pieces[0]),
        *[frame(CONTINUATION, 0, 3, piece) for piece in pieces[1:-1]],
        frame(CONTINUATION, END_HEADERS, 3, pieces[-1]),
    )

    assert peer.decode(frames[0])[":status"] == "431"
    assert not peer.world.is_closing


def test_a_header_bomb_ends_the_connection_while_the_table_is_in_use() -> None:
    peer = Peer()
    peer.send(PREFACE, frame(SETTINGS, 0, 0))
    bomb = b"\x40\x01a\x7f\xe1\x1e" + b"v" * 4000 + b"\xbe" * 2000

    frames = peer.send(frame(HEADERS, END_HEADERS, 1, bomb))

    assert goaway_in(frames) is ErrorCode.COMPRESSION_ERROR


def test_a_peer_that_asks_and_does_not_read_is_left() -> None:
    peer = Peer(limits=ConnectionLimits(burst_of_noise=1_000_000))
    peer.greet()
    peer.connection.outbox.is_paused = True
    for _ in range(110):
        peer.connection.receive(frame(PING, 0, 0, bytes(8)) * 100)
    assert peer.world.is_closing


def ended(peer: Peer, stream_id: int) -> None:
    """A stream that was closed by both sides."""
    peer.send(peer.headers(stream_id, end=True))
    peer.handler.outlet.close()
    peer.read()


def given_up(peer: Peer, stream_id: int) -> None:
    """A stream that we ended while the peer still sent."""
    peer.send(peer.headers(stream_id))
    peer.handler.outlet.close()
    peer.read()


@pytest.mark.parametrize("end", [ended, given_up])
@pytest.mark.parametrize("kind", ["DATA", "RST_STREAM", "trailers"])
def test_a_flood_on_streams_that_are_gone_ends_the_connection(
    end: Callable[[Peer, int], None], kind: str
) -> None:
    peer = opened()
    end(peer, 3)
    block = peer.headers(3, fields=[("x", "y")], end=True)
    late = {"DATA": data(3, b"x"), "RST_STREAM": rst_stream(3, ErrorCode.CANCEL)}.get(kind, block)

    frames = [f for _ in range(600) for f in peer.send(late)]

    goaways = [f.error for f in frames if f.kind == GOAWAY]
    assert goaways in ([ErrorCode.ENHANCE_YOUR_CALM], [ErrorCode.STREAM_CLOSED])


def test_a_second_block_of_trailers_is_refused_and_many_end_the_connection() -> None:
    peer = opened()
    frames = []
    for number in range(150):
        stream_id = 2 * number + 3
        trailers = peer.headers(stream_id, fields=[("x", "y")], end=True)
        frames += peer.send(peer.headers(stream_id), trailers, trailers)
    assert resets_in(frames)[3] is ErrorCode.STREAM_CLOSED
    assert goaway_in(frames) is ErrorCode.ENHANCE_YOUR_CALM


def test_trailers_over_the_limit_end_the_connection() -> None:
    peer = opened()
    large = peer.headers(1, fields=[(f"x-{n}", "v" * 900) for n in range(80)], end=True)[9:]
    pieces = [large[at : at + 16_000] for at in range(0, len(large), 16_000)]
    frames = peer.send(
        frame(HEADERS, 1, 1, pieces[0]),
        *[frame(CONTINUATION, 0, 1, piece) for piece in pieces[1:-1]],
        frame(CONTINUATION, END_HEADERS, 1, pieces[-1]),
    )
    assert goaway_in(frames) is ErrorCode.ENHANCE_YOUR_CALM


def test_streams_over_the_announced_number_are_refused_and_a_flood_ends_the_connection() -> None:
    peer = Peer(limits=FEW)
    peer.greet()
    frames = peer.send(*(peer.headers(2 * number + 1) for number in range(60)))
    assert list(resets_in(frames).values()) == [ErrorCode.REFUSED_STREAM] * 10
    assert len(peer.handlers) == 50

    frames = peer.send(*(peer.headers(2 * number + 1) for number in range(60, 200)))

    assert goaway_in(frames) is ErrorCode.ENHANCE_YOUR_CALM
    assert len(peer.handlers) == 50
    assert peer.budget.streams.count == 0


@pytest.mark.parametrize(
    "block",
    [
        b"\x82" * 15_000,
        b"\x90" * 15_000,
        b"\x00\x00\x00" * 5_000,
        b"\x00\x01a\xff\xa0\x75" + b"\x00" * 15_000,
        b"\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x7f" + b"\xff" * 15_000,
        b"\x20" * 15_000,
    ],
    ids=[
        "one field of the static table",
        "a field with a value",
        "fields without names",
        "a text in Huffman's code",
        "a table of any size",
        "an index without end",
        "changes of the table",
    ],
)
@pytest.mark.parametrize("is_greeted", [True, False], ids=["stateless", "with a table"])
def test_a_block_that_unpacks_to_much_is_given_up_early(block: bytes, is_greeted: bool) -> None:
    peer = Peer(limits=FEW)
    if is_greeted:
        peer.greet()
    else:
        peer.send(PREFACE, frame(SETTINGS, 0, 0))
    tracemalloc.start()
    try:
        peer.send(frame(HEADERS, END_HEADERS | 1, 1, block))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
    assert peer.handlers == []


def test_zero_windows_on_many_streams_hold_no_more_than_may_be_held() -> None:
    budget = Budget(held=HeldBytes(100_000), streams=OpenStreams(1000))
    peers = [Peer(budget=budget) for _ in range(3)]
    for peer in peers:
        peer.greet(settings_frame({Setting.INITIAL_WINDOW_SIZE: 0})[9:])
        for number in range(50):
            peer.send(peer.headers(2 * number + 1))
            peer.handler.outlet.send((bytes(1500),))
            peer.read()
            assert budget.held.used <= 100_000 + 1500
    codes = [code for peer in peers for code in peer.observer.codes]
    assert codes == ["ResourceExhausted"] * len(codes)
    assert len(codes) == 150 - 100_000 // 1500

    for peer in peers:
        peer.connection.lost()
    assert budget.held.used == 0


def test_few_long_messages_that_do_not_end_stop_no_short_ones() -> None:
    budget = Budget(held=HeldBytes(1 << 22), streams=OpenStreams(100))
    hostile, honest = Peer(budget=budget), Peer(budget=budget)
    for peer in (hostile, honest):
        peer.greet()
    for stream_id in range(1, 11, 2):
        hostile.send(hostile.headers(stream_id), data(stream_id, b"\0\x7f\0\0\0"))
        for _ in range(64):
            hostile.send(data(stream_id, bytes(16_000)))
    assert hostile.observer.codes == ["ResourceExhausted"]
    hostile.send(*(data(stream_id, bytes(16_000)) for stream_id in range(1, 9, 2)))
    assert budget.held.used > budget.held.limit - 40_000

    whole = message(bytes(4_000))
    for stream_id in range(1, 61, 2):
        honest.send(honest.headers(stream_id), data(stream_id, whole[:2_000]))
    for stream_id in range(1, 61, 2):
        honest.send(data(stream_id, whole[2_000:]))

    assert honest.observer.codes == []
    assert [each.messages for each in honest.handlers] == [[bytes(4_000)]] * 30


@pytest.mark.parametrize("cut", [9, 4, 1])
def test_a_frame_that_claims_too_much_is_not_waited_for(cut: int) -> None:
    peer = opened()
    claim = b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"
    frames = [f for at in range(0, 9, cut) for f in peer.send(claim[at : at + cut])]
    assert goaway_in(frames) is ErrorCode.FRAME_SIZE_ERROR


class Busy(Recorder):
    """Answers in every way that there is."""

    has_closed = False

    def on_message(self, message: bytes) -> None:
        super().on_message(message)
        assert not self.ends
        if message.startswith(b"raise"):
            raise ValueError("broken")
        if message.startswith(b"close"):
            self._close()
        elif message.startswith(b"many"):
            self.outlet.send(self._many())
        else:
            self.outlet.send((message,))

    def on_half_close(self) -> None:
        super().on_half_close()
        self._close()

    def _close(self) -> None:
        self.has_closed = True
        self.outlet.close()

    def _many(self) -> Iterator[bytes]:
        for _ in range(100):
            yield bytes(3000)


def fuzzed() -> tuple[Peer, list[Busy]]:
    handlers: list[Busy] = []

    def make(outlet: Outlet) -> Busy:
        handlers.append(Busy(outlet))
        return handlers[-1]

    return Peer(make, limits=FEW, max_held_bytes=200_000), handlers


def check(peer: Peer, handlers: list[Busy]) -> None:
    """What holds whatever was sent."""
    peer.read()
    peer.connection.lost()
    peer.connection.outbox.take()
    assert len(handlers) <= peer.observer.opened == len(peer.observer.codes)
    assert peer.held.used == 0
    for handler in handlers:
        assert handler.ends.count("disconnect") == (0 if handler.has_closed else 1)
        assert handler.ends.count("half-close") <= 1
        assert "disconnect" not in handler.ends[:-1]


STREAM_IDS = st.sampled_from([0, 1, 1, 3, 3, 5, 7, 2, 2**31 - 1])
PAYLOADS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"",
            bytes(4),
            bytes(5),
            bytes(8),
            b"\0\0\0\1\0",
            (1000).to_bytes(4, "big"),
            (2**31 - 1).to_bytes(4, "big"),
            message(b"hello"),
            message(b"close") + message(b"more"),
            message(b"many") * 3,
            message(b"raise"),
            message(b"x" * 500)[:100],
            b"\x82\x86\x84",
            bytes((0, 4, 0, 0, 0, 9)),
            bytes((0, 4, 0x7F, 0xFF, 0xFF, 0xFF)),
        ]
    ),
)
RAW_FRAMES = st.builds(
    frame,
    st.one_of(st.integers(0, 10), st.just(DATA)),
    st.one_of(st.sampled_from([0, 1, 4, 5, 8, 9, 0x20, 0x2D]), st.integers(0, 255)),
    STREAM_IDS,
    PAYLOADS,
)
REQUESTS = st.tuples(st.sampled_from([1, 3, 5, 7, 9]), st.booleans())


@given(st.lists(st.one_of(RAW_FRAMES, REQUESTS), max_size=30), st.integers(1, 200))
@settings(max_examples=400, deadline=None)
def test_any_sequence_of_frames_ends_every_handler_once(
    sequence: list[bytes | tuple[int, bool]], cut: int
) -> None:
    peer, handlers = fuzzed()
    peer.greet()
    sent = b"".join(
        one if isinstance(one, bytes) else peer.headers(one[0], end=one[1]) for one in sequence
    )
    for at in range(0, len(sent), cut):
        peer.connection.receive(sent[at : at + cut])
        peer.connection.outbox.take()
        peer.world.advance(0.001)
    check(peer, handlers)


@given(st.binary(max_size=400), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_taken(junk: bytes, is_greeted: bool) -> None:
    peer, handlers = fuzzed()
    if is_greeted:
        peer.greet()
        peer.send(peer.headers())
    peer.connection.receive(junk)
    check(peer, handlers)


@given(st.integers(0, 2**32), st.integers(1, 30))
@settings(max_examples=150, deadline=None)
def test_a_conversation_with_flipped_bits_is_taken(seed: int, flips: int) -> None:
    peer, handlers = fuzzed()
    whole = PREFACE + frame(SETTINGS, 0, 0) + SETTINGS_ACK
    for stream_id in (1, 3, 5):
        whole += peer.headers(stream_id) + data(stream_id, message(b"many") + message(b"x"))
        whole += window_update(stream_id, 100) + data(stream_id, message(b"y" * 40), end=True)
    rng = random.Random(seed)
    broken = bytearray(whole)
    for _ in range(flips):
        broken[rng.randrange(24, len(broken))] ^= 1 << rng.randrange(8)
    at = 0
    while at < len(broken):
        size = rng.randrange(1, 300)
        peer.connection.receive(bytes(broken[at : at + size]))
        peer.connection.outbox.take()
        at += size
    check(peer, handlers)


def test_memory_stays_bounded_whatever_is_left_half_done() -> None:
    peer = opened()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(3000):
            stream_id = 2 * number + 3
            peer.connection.receive(
                peer.headers(stream_id, extra=[("x-trace", str(number))])
                + data(stream_id, (1 << 24).to_bytes(5, "big") + bytes(3000))
            )
            peer.connection.outbox.take()
            peer.world.advance(1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2_500_000
    assert not peer.world.is_closing


def test_streams_that_are_gone_do_not_wait_for_their_turn() -> None:
    remains: list[weakref.ref[Outlet]] = []

    class Greeting(Recorder):
        def __init__(self, outlet: Outlet) -> None:
            super().__init__(outlet)
            remains.append(weakref.ref(outlet))
            outlet.send((bytes(1000),))

    peer = Peer(Greeting)
    peer.greet()
    peer.connection.outbox.is_paused = True

    for number in range(100):
        stream_id = 2 * number + 1
        peer.send(peer.headers(stream_id), rst_stream(stream_id, ErrorCode.CANCEL))

    assert sum(outlet() is not None for outlet in remains) == 0


def test_the_settings_helpers_agree() -> None:
    values = {Setting.MAX_FRAME_SIZE: 20_000, Setting.HEADER_TABLE_SIZE: 0}
    assert dict(settings_in(settings_frame(values)[9:])) == values
