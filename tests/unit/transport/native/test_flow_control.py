from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.transport.native.frames import (
    DATA,
    WINDOW_UPDATE,
    ErrorCode,
    Setting,
    frame,
    settings,
    window_update,
)
from epp.transport.native.limits import ConnectionLimits
from epp.transport.streams import MessageLimits, StatusCode
from tests.fakes.transport.http2_peer import (
    Frame,
    Peer,
    body_of,
    data,
    goaway_in,
    message,
    messages_of,
    resets_in,
)

MIB = 1024 * 1024
DEFAULT = 65_535


def sizes(frames: list[Frame]) -> list[int]:
    return [len(f.payload) for f in frames if f.kind == DATA]


def credits_in(frames: list[Frame]) -> dict[int, int]:
    return {
        f.stream_id: int.from_bytes(f.payload, "big") for f in frames if f.kind == WINDOW_UPDATE
    }


def opened(peer: Peer, window: int | None = None) -> Peer:
    announced = {} if window is None else {Setting.INITIAL_WINDOW_SIZE: window}
    peer.greet(settings(announced)[9:])
    peer.send(peer.headers())
    return peer


@pytest.fixture
def peer() -> Peer:
    return opened(Peer())


def test_data_is_sent_in_frames_that_every_peer_takes(peer: Peer) -> None:
    peer.handler.outlet.send((bytes(40_000),))
    assert sizes(peer.read()) == [16_384, 16_384, 40_005 - 2 * 16_384]


def test_several_messages_share_a_frame(peer: Peer) -> None:
    peer.handler.outlet.send((b"a", b"bc"))
    peer.handler.outlet.send(iter((b"", b"d")))
    frames = peer.read()
    assert messages_of(frames) == [b"a", b"bc", b"", b"d"]
    assert len(sizes(frames)) == 1


def test_no_more_is_sent_than_the_windows_allow() -> None:
    peer = opened(Peer(), 10)
    peer.handler.outlet.send((bytes(20),))
    peer.handler.outlet.close()

    assert sizes(peer.read()) == [10]
    assert sizes(peer.send(window_update(1, 3))) == [3]
    frames = peer.send(window_update(1, 100))
    assert sizes(frames) == [12]
    assert peer.observer.codes == ["OK"]


def test_even_the_prefix_of_a_message_is_cut() -> None:
    peer = opened(Peer(), 1)
    peer.handler.outlet.send((b"hello",))
    frames = peer.read()
    for _ in range(9):
        frames += peer.send(window_update(1, 1))
    assert sizes(frames) == [1] * 10
    assert messages_of(frames) == [b"hello"]


def test_the_window_of_the_connection_holds_all_streams_back() -> None:
    peer = opened(Peer(), MIB)
    peer.send(peer.headers(3))
    for handler in peer.handlers:
        handler.outlet.send((bytes(50_000),))

    frames = peer.read()
    assert sum(sizes(frames)) == DEFAULT
    frames += peer.send(window_update(0, MIB))

    assert messages_of(frames, 1) == messages_of(frames, 3) == [bytes(50_000)]


def test_streams_take_turns() -> None:
    peer = opened(Peer(), MIB)
    peer.send(peer.headers(3), window_update(0, MIB))
    for handler in peer.handlers:
        handler.outlet.send((bytes(40_000),))

    order = [f.stream_id for f in peer.read() if f.kind == DATA]

    assert order == [1, 3, 1, 3, 1, 3]


def test_a_smaller_initial_window_may_leave_a_negative_one() -> None:
    peer = opened(Peer(), 100)
    peer.handler.outlet.send((bytes(200),))
    assert sizes(peer.read()) == [100]

    assert sizes(peer.send(settings({Setting.INITIAL_WINDOW_SIZE: 40}))) == []
    assert sizes(peer.send(window_update(1, 60))) == []
    assert sizes(peer.send(window_update(1, 1))) == [1]
    assert sizes(peer.send(settings({Setting.INITIAL_WINDOW_SIZE: 1000}))) == [104]


def test_an_initial_window_that_overflows_a_stream_ends_the_connection(peer: Peer) -> None:
    peer.send(window_update(1, 1000))
    frames = peer.send(settings({Setting.INITIAL_WINDOW_SIZE: (1 << 31) - 1}))
    assert goaway_in(frames) is ErrorCode.FLOW_CONTROL_ERROR


def test_a_blocked_end_waits_for_what_is_queued() -> None:
    peer = opened(Peer(), 4)
    peer.handler.outlet.send((b"x",))
    peer.handler.outlet.close(StatusCode.UNAVAILABLE, "later")
    frames = peer.read()
    assert peer.observer.codes == []

    frames += peer.send(window_update(1, 2))

    assert messages_of(frames) == [b"x"]
    assert peer.status(frames) is StatusCode.UNAVAILABLE


def test_a_generator_is_drained_no_further_than_the_peer_reads(peer: Peer) -> None:
    produced = 0
    is_closed = False

    def flood() -> Iterator[bytes]:
        nonlocal produced, is_closed
        try:
            while True:
                produced += 1
                yield bytes(1000)
        finally:
            is_closed = True

    peer.handler.outlet.send(flood())
    peer.read()
    assert produced == DEFAULT // 1005 + 1
    peer.send(window_update(1, 10_000), window_update(0, 10_000))
    assert produced == (DEFAULT + 10_000) // 1005 + 1

    peer.send(frame(3, 0, 1, bytes(4)))

    assert is_closed


def test_a_generator_waits_while_the_socket_is_full() -> None:
    peer = opened(Peer(), 1 << 30)
    peer.send(window_update(0, 1 << 30))
    produced = 0

    def flood() -> Iterator[bytes]:
        nonlocal produced
        while True:
            produced += 1
            yield bytes(1000)

    peer.handler.outlet.send(flood())
    peer.connection.outbox.take()
    once = produced
    peer.connection.outbox.is_paused = True
    peer.connection.outbox.take()
    assert produced == once
    assert once < 400

    peer.connection.outbox.is_paused = False
    peer.connection.outbox.take()
    assert produced > once
    peer.connection.lost()


def test_credit_is_returned_in_batches(peer: Peer) -> None:
    piece = bytes(16_384)
    answers = [credits_in(peer.send(frame(DATA, 0, 1, piece))) for _ in range(513)]
    given = [answer for answer in answers if answer]
    assert given == [{0: 8 * MIB + 16_384, 1: 8 * MIB + 16_384}]


def test_more_data_than_a_stream_may_send_resets_it() -> None:
    peer = Peer(limits=ConnectionLimits(receive_window=70_000))
    opened(peer)
    peer.handler.outlet.send((bytes(100_000),))  # not read: no credit is returned
    peer.read()

    frames = peer.send(*[frame(DATA, 0, 1, bytes(14_000))] * 5)
    assert resets_in(frames) == {}
    assert credits_in(frames).keys() == {0}

    assert resets_in(peer.send(frame(DATA, 0, 1, b"x"))) == {1: ErrorCode.FLOW_CONTROL_ERROR}


def test_credit_is_withheld_until_answers_are_read() -> None:
    peer = Peer(limits=ConnectionLimits(receive_window=70_000))
    opened(peer)
    peer.handler.outlet.send((bytes(100_000),))
    peer.read()
    peer.send(*[frame(DATA, 0, 1, bytes(14_000))] * 4)

    frames = peer.send(window_update(0, 100_000), window_update(1, 100_000))

    assert credits_in(frames)[1] == 56_000


def test_padding_counts(peer: Peer) -> None:
    padded = frame(DATA, 8, 1, bytes((255,)) + bytes(16_000))
    answers = [credits_in(peer.send(padded)) for _ in range(525)]
    assert [a for a in answers if a] == [{0: 525 * 16_001, 1: 525 * 16_001}]


@given(
    bodies=st.lists(st.binary(max_size=60), max_size=6),
    cuts=st.lists(st.integers(1, 40), min_size=1),
)
def test_messages_survive_any_cut(bodies: list[bytes], cuts: list[int]) -> None:
    peer = opened(Peer())
    content = b"".join(map(message, bodies))
    at = step = 0
    while at < len(content):
        size = cuts[step % len(cuts)]
        peer.send(frame(DATA, 0, 1, content[at : at + size]))
        at, step = at + size, step + 1
    peer.send(data(1, b"", end=True))

    assert peer.handler.messages == bodies
    assert peer.handler.ends == ["half-close"]
    assert peer.held.used == 0


@given(
    bodies=st.lists(st.binary(max_size=60), min_size=1, max_size=6),
    credit=st.lists(st.integers(1, 40), min_size=1),
    window=st.integers(0, 50),
)
def test_messages_survive_any_window(bodies: list[bytes], credit: list[int], window: int) -> None:
    peer = opened(Peer(), window)
    allowed = window
    peer.handler.outlet.send(iter(bodies[::2]))
    peer.handler.outlet.send(tuple(bodies[1::2]))
    peer.handler.outlet.close()
    frames = peer.read()
    step = 0
    while not peer.observer.codes:
        assert len(body_of(frames)) == allowed
        frames += peer.send(window_update(1, credit[step % len(credit)]))
        allowed += credit[step % len(credit)]
        step += 1

    assert messages_of(frames) == bodies[::2] + bodies[1::2]
    assert len(body_of(frames)) <= allowed
    assert peer.held.used == 0


@pytest.mark.parametrize(
    ("content", "extra", "code"),
    [
        (message(b"x", flag=1), (), StatusCode.INTERNAL),
        (message(b"x", flag=1), [("grpc-encoding", "gzip")], StatusCode.UNIMPLEMENTED),
        (message(b"x", flag=2), (), StatusCode.INTERNAL),
        (message(b"12345678901"), (), StatusCode.RESOURCE_EXHAUSTED),
        (message(b"x" * 20)[:5], (), StatusCode.RESOURCE_EXHAUSTED),
    ],
    ids=["compressed", "gzip", "unknown flag", "too large", "too large, by its prefix"],
)
def test_a_message_that_can_not_be_taken_ends_its_stream(
    content: bytes, extra: list[tuple[str, str]], code: StatusCode
) -> None:
    peer = Peer(messages=MessageLimits(max_receive_bytes=10))
    peer.greet()

    frames = peer.send(peer.headers(extra=extra), data(1, message(b"good") + content))

    assert peer.status(frames) is code
    assert peer.handler.messages == [b"good"]
    assert peer.handler.ends == ["disconnect"]


def test_the_end_within_a_message_is_an_error(peer: Peer) -> None:
    frames = peer.send(data(1, message(b"half")[:7], end=True))
    assert peer.status(frames) is StatusCode.INTERNAL
    assert peer.handler.ends == ["disconnect"]
    assert peer.held.used == 0


def test_an_answer_over_the_send_limit_is_an_error_of_the_handler() -> None:
    peer = opened(Peer(messages=MessageLimits(max_send_bytes=10)))
    peer.handler.outlet.send((b"fits", b"does not fit"))
    frames = peer.read()
    assert messages_of(frames) == [b"fits"]
    assert peer.status(frames) is StatusCode.INTERNAL


def test_half_received_messages_are_bounded_over_all_streams() -> None:
    peer = Peer(max_held_bytes=100_000)
    peer.greet()
    for stream_id in range(1, 41, 2):
        peer.send(peer.headers(stream_id))
    prefix = (1 << 20).to_bytes(5, "big")

    for stream_id in range(1, 41, 2):
        peer.send(data(stream_id, prefix + bytes(9_000)))

    ends = [handler.ends for handler in peer.handlers]
    assert ends.count(["disconnect"]) == 9
    assert peer.held.used <= 100_000
    assert peer.observer.codes == ["ResourceExhausted"] * 9


def test_answers_that_are_not_read_are_bounded_over_all_streams() -> None:
    peer = opened(Peer(max_held_bytes=100_000), 0)

    for _ in range(20):
        peer.handler.outlet.send((bytes(10_000),))
    frames = peer.read()

    assert peer.status(frames) is StatusCode.RESOURCE_EXHAUSTED
    assert peer.handler.ends == ["disconnect"]
    assert peer.held.used == 0


def test_short_answers_that_are_not_read_count_with_what_they_take() -> None:
    peer = opened(Peer(max_held_bytes=100_000), 0)
    outlet, held = peer.handler.outlet, 0
    tracemalloc.start()
    try:
        while not peer.handler.ends:
            for number in range(100):
                outlet.send((b"%012d" % number,))
            held, _ = tracemalloc.get_traced_memory()
            peer.read()
    finally:
        tracemalloc.stop()

    assert held < 130_000
