"""Both directions of flow control against a model that counts (RFC 9113 §5.2 and §6.9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from epp.transport.native.frames import (
    DATA,
    DEFAULT_WINDOW,
    END_STREAM,
    HEADERS,
    PADDED,
    WINDOW_UPDATE,
    ErrorCode,
    Setting,
    frame,
    rst_stream,
    window_update,
)
from epp.transport.native.frames import settings as settings_frame
from epp.transport.native.limits import ConnectionLimits
from tests.fakes.transport.http2_peer import Frame, Peer, message

RECEIVE_WINDOW = 70_000
LARGEST_DATA = 16_384


@dataclass
class Talk:
    """What a model knows of one stream."""

    send_window: int
    queued: int = 0
    """Bytes given to the outlet and not seen as DATA."""
    is_ending: bool = False
    credit: int = RECEIVE_WINDOW
    """What the peer may send."""
    consumed: int = 0
    returned: int = 0
    is_over: bool = False


@dataclass
class Model:
    """A peer that counts every byte."""

    peer: Peer = field(
        default_factory=lambda: Peer(limits=ConnectionLimits(receive_window=RECEIVE_WINDOW))
    )
    initial_window: int = DEFAULT_WINDOW
    send_window: int = DEFAULT_WINDOW
    credit: int = DEFAULT_WINDOW
    consumed: int = 0
    returned: int = 0
    talks: dict[int, Talk] = field(default_factory=dict)

    def begin(self) -> None:
        """Greet, and take the connection's first credit."""
        for one in [*self.peer.read(), *self.peer.greet()]:
            if one.kind == WINDOW_UPDATE:
                self.credit += increment_of(one)
        assert self.credit == RECEIVE_WINDOW

    def open(self) -> None:
        """One stream more."""
        stream_id = 2 * len(self.talks) + 1
        self.talks[stream_id] = Talk(self.initial_window)
        self.see(self.peer.send(self.peer.headers(stream_id)))

    def answer(self, stream_id: int, sizes: list[int], *, on_demand: bool) -> None:
        """The handler sends."""
        talk = self.talks[stream_id]
        if talk.is_over or talk.is_ending:
            return
        talk.queued += sum(size + 5 for size in sizes)
        outlet = self.peer.handlers[stream_id // 2].outlet
        messages = [bytes(size) for size in sizes]
        outlet.send(iter(messages) if on_demand else tuple(messages))
        self.see(self.peer.read())

    def close(self, stream_id: int) -> None:
        """The handler ends its stream."""
        talk = self.talks[stream_id]
        if not talk.is_over:
            talk.is_ending = True
            self.peer.handlers[stream_id // 2].outlet.close()
            self.see(self.peer.read())

    def widen(self, stream_id: int, increment: int) -> None:
        """The peer takes more; 0 is the connection."""
        if stream_id == 0:
            self.send_window += increment
        else:
            self.talks[stream_id].send_window += increment
        self.see(self.peer.send(window_update(stream_id, increment)))

    def change_initial_window(self, window: int) -> None:
        """The peer takes more or less on every stream."""
        for talk in self.talks.values():
            talk.send_window += window - self.initial_window
        self.initial_window = window
        self.see(self.peer.send(settings_frame({Setting.INITIAL_WINDOW_SIZE: window})))

    def send(self, stream_id: int, size: int, padding: int) -> None:
        """The peer sends messages that are complete with their frame, as far as it may."""
        talk = self.talks[stream_id]
        size = min(size, talk.credit, self.credit)
        if talk.is_over or size < padding + 6:
            return
        flags = PADDED if padding else 0
        content = message(bytes(size - padding - 5 - bool(padding)))
        payload = (bytes((padding,)) + content + bytes(padding)) if padding else content
        for each in (self, talk):
            each.credit -= len(payload)
            each.consumed += len(payload)
        self.see(self.peer.send(frame(DATA, flags, stream_id, payload)))

    def reset(self, stream_id: int) -> None:
        """The peer gives a stream up."""
        self.talks[stream_id].is_over = True
        self.see(self.peer.send(rst_stream(stream_id, ErrorCode.CANCEL)))

    def see(self, frames: list[Frame]) -> None:
        """Count what came, and check what has to hold between any two steps."""
        for one in frames:
            if one.kind == DATA:
                self._see_data(one)
            elif one.kind == WINDOW_UPDATE:
                self._see_credit(one)
            elif one.kind == HEADERS and one.flags & END_STREAM:
                talk = self.talks[one.stream_id]
                assert talk.is_ending
                assert talk.queued == 0, "an end before all that was queued"
                talk.is_over = True
        for talk in self.talks.values():
            waits = talk.queued > 0 and not talk.is_over
            assert not waits or min(talk.send_window, self.send_window) <= 0, "room left unused"
            assert talk.is_over or waits or not talk.is_ending, "an end that waits for nothing"

    def _see_data(self, one: Frame) -> None:
        talk, size = self.talks[one.stream_id], len(one.payload)
        assert not talk.is_over
        assert 0 < size <= min(talk.send_window, self.send_window, LARGEST_DATA)
        talk.send_window -= size
        self.send_window -= size
        talk.queued -= size
        assert talk.queued >= 0

    def _see_credit(self, one: Frame) -> None:
        each = self.talks[one.stream_id] if one.stream_id else self
        increment = increment_of(one)
        assert increment > 0
        each.credit += increment
        each.returned += increment
        assert each.returned <= each.consumed, "credit for what never came"
        assert each.credit <= RECEIVE_WINDOW

    def check_credit(self) -> None:
        """Nobody waits for ever: less than half of a window is ever kept back."""
        half = RECEIVE_WINDOW // 2
        assert self.consumed - self.returned <= half
        for talk in self.talks.values():
            is_read = talk.queued == 0 and not talk.is_over
            assert not is_read or talk.consumed - talk.returned <= half


def increment_of(one: Frame) -> int:
    return int.from_bytes(one.payload, "big")


STREAM = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open")),
        st.tuples(
            st.just("answer"),
            STREAM,
            st.lists(st.sampled_from([0, 1, 5_000, 16_379, 16_380, 40_000, 90_000]), max_size=4),
            st.booleans(),
        ),
        st.tuples(st.just("close"), STREAM),
        st.tuples(st.just("widen"), st.integers(-3, 3), st.integers(1, 60_000)),
        st.tuples(st.just("initial"), st.sampled_from([0, 1, 30_000, 65_535, 500_000, 500_000])),
        st.tuples(
            st.just("send"), STREAM, st.integers(6, LARGEST_DATA), st.sampled_from([0, 0, 1, 255])
        ),
        st.tuples(st.just("reset"), STREAM),
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_windows_are_exact_in_both_directions(steps: list[tuple[object, ...]]) -> None:
    model = Model()
    model.begin()
    model.open()
    for name, *arguments in steps:
        act(model, str(name), arguments)
    model.check_credit()
    finish(model)


def act(model: Model, name: str, arguments: list[object]) -> None:
    known = list(model.talks)
    numbers = [value for value in arguments if isinstance(value, int)]
    stream_id = known[numbers[0] % len(known)] if numbers else 0
    if name == "open" and len(known) < 4:
        model.open()
    elif name == "answer":
        sizes = arguments[1]
        assert isinstance(sizes, list)
        model.answer(stream_id, sizes, on_demand=bool(arguments[2]))
    elif name == "close":
        model.close(stream_id)
    elif name == "widen":
        model.widen(0 if numbers[0] < 0 else stream_id, numbers[1])
    elif name == "initial":
        model.change_initial_window(numbers[0])
    elif name == "send":
        model.send(stream_id, numbers[1], numbers[2])
    elif name == "reset":
        model.reset(stream_id)


def finish(model: Model) -> None:
    """A peer that reads everything gets everything, and nothing is held any more."""
    model.widen(0, 10_000_000)
    for stream_id, talk in model.talks.items():
        if not talk.is_over:
            model.widen(stream_id, 10_000_000)
            model.close(stream_id)
            assert talk.queued == 0
        assert talk.is_over
    assert model.peer.held.used == 0
    assert model.peer.budget.streams.count == 0
    assert not model.peer.world.is_closing


def test_every_byte_of_a_long_talk_is_credited_once() -> None:
    model = Model()
    model.begin()
    model.open()
    model.open()
    for size in sizes(2_000):
        model.send(1, size, 0)
        model.send(3, size // 2 + 6, size % 256)
        model.check_credit()
    assert model.consumed > 20 * RECEIVE_WINDOW


def sizes(count: int) -> Iterator[int]:
    size = 1
    for _ in range(count):
        size = size * 48_271 % 2_147_483_647
        yield size % (LARGEST_DATA - 6) + 6
