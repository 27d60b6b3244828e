from __future__ import annotations

import pytest

from epp.transport.native.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    LARGEST_STREAM,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ACK,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    ErrorCode,
    Setting,
    frame,
    rst_stream,
    settings,
    settings_in,
    window_update,
)
from epp.transport.native.limits import ConnectionLimits
from epp.transport.streams import Outlet, StatusCode
from tests.fakes.transport.http2_peer import (
    PATH,
    REQUEST,
    Peer,
    Recorder,
    data,
    frames_in,
    goaway_in,
    message,
    messages_of,
    resets_in,
)


class Echo(Recorder):
    def on_message(self, message: bytes) -> None:
        self.outlet.send((message,))

    def on_half_close(self) -> None:
        self.outlet.close()


@pytest.fixture
def peer() -> Peer:
    peer = Peer()
    peer.greet()
    return peer


def test_settings_are_announced_before_anything_comes() -> None:
    first, second = Peer().read()

    values = dict(settings_in(first.payload))
    assert first.kind == SETTINGS
    assert values[Setting.HEADER_TABLE_SIZE] == 0
    assert values[Setting.INITIAL_WINDOW_SIZE] == 16 * 1024 * 1024
    assert second == (WINDOW_UPDATE, 0, 0, (16 * 1024 * 1024 - 65_535).to_bytes(4, "big"))


def test_settings_of_the_peer_are_acknowledged() -> None:
    assert frames_in(SETTINGS_ACK)[0] in Peer().greet()


def test_a_whole_call_is_answered_in_one_write() -> None:
    peer = Peer(Echo)
    peer.greet()

    peer.connection.receive(peer.headers() + data(1, message(b"one") + message(b"two"), end=True))
    frames = frames_in(peer.connection.outbox.take())

    assert [f.kind for f in frames] == [HEADERS, DATA, HEADERS]
    assert messages_of(frames) == [b"one", b"two"]
    assert peer.decode(frames[0]) == {":status": "200", "content-type": "application/grpc"}
    assert frames[2].flags == END_HEADERS | END_STREAM
    assert peer.decode(frames[2]) == {"grpc-status": "0"}
    assert peer.observer.codes == ["OK"]


def test_what_arrives_byte_by_byte_means_the_same() -> None:
    peer = Peer(Echo)
    whole = PREFACE + frame(SETTINGS, 0, 0) + SETTINGS_ACK + peer.headers()
    whole += data(1, message(b"x" * 300), end=True)
    peer.read()

    frames = [f for at in range(len(whole)) for f in peer.send(whole[at : at + 1])]

    assert messages_of(frames) == [b"x" * 300]


def test_an_end_without_messages_is_one_frame_of_trailers(peer: Peer) -> None:
    peer.send(peer.headers())
    peer.handler.outlet.close(StatusCode.UNAVAILABLE, "100% gone\nfor ä while")

    trailers, reset = peer.read()

    assert trailers.flags == END_HEADERS | END_STREAM
    assert peer.decode(trailers) == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-status": "14",
        "grpc-message": "100%25 gone%0Afor %C3%A4 while",
    }
    assert (reset.kind, reset.error) == (RST_STREAM, ErrorCode.NO_ERROR)


def test_frames_for_a_stream_that_we_ended_are_ignored(peer: Peer) -> None:
    peer.send(peer.headers())
    peer.handler.outlet.close()
    peer.read()

    assert peer.send(data(1, b"more"), window_update(1, 5), rst_stream(1, ErrorCode.CANCEL)) == []
    assert peer.send(peer.headers(end=True)) == []


def test_answers_later_on_ask_to_be_taken(peer: Peer) -> None:
    peer.send(peer.headers())
    wakes = peer.world.wakes

    peer.handler.outlet.send((b"late",))

    assert peer.world.wakes > wakes
    assert messages_of(peer.read()) == [b"late"]


def test_a_reset_is_told_once_and_drops_what_is_queued(peer: Peer) -> None:
    peer.send(peer.headers())
    peer.handler.outlet.send((b"never",))

    assert peer.send(rst_stream(1, ErrorCode.CANCEL)) == []

    peer.handler.outlet.send((b"late",))
    assert peer.read() == []
    assert peer.handler.ends == ["disconnect"]
    assert peer.observer.codes == ["Canceled"]


def test_a_reset_of_a_stream_with_nothing_left_to_do_counts_as_ok(peer: Peer) -> None:
    peer.send(peer.headers())
    peer.handler.is_over = True

    peer.send(rst_stream(1, ErrorCode.CANCEL))

    assert peer.handler.ends == ["disconnect"]
    assert peer.observer.codes == ["OK"]


def test_a_lost_connection_ends_every_stream(peer: Peer) -> None:
    peer.send(peer.headers(1), peer.headers(3))

    peer.connection.lost()

    assert [handler.ends for handler in peer.handlers] == [["disconnect"], ["disconnect"]]


def test_trailers_end_the_request(peer: Peer) -> None:
    peer.send(peer.headers(), peer.headers(fields=[("x-checksum", "1")], end=True))

    assert peer.handler.ends == ["half-close"]


def test_blocks_in_continuations_and_padding_are_understood(peer: Peer) -> None:
    whole = frames_in(peer.headers())[0].payload
    padded = bytes((3,)) + bytes(5) + whole[:10] + bytes(3)

    peer.send(
        frame(HEADERS, PADDED | WITH_PRIORITY, 1, padded),
        frame(CONTINUATION, 0, 1, whole[10:20]),
        frame(CONTINUATION, END_HEADERS, 1, whole[20:]),
        frame(DATA, PADDED | END_STREAM, 1, bytes((4,)) + message(b"hi") + bytes(4)),
    )

    assert peer.handler.messages == [b"hi"]
    assert peer.handler.ends == ["half-close"]


def test_pings_are_answered_with_what_they_carry(peer: Peer) -> None:
    assert peer.send(frame(PING, 0, 0, b"12345678")) == [(PING, ACK, 0, b"12345678")]


@pytest.mark.parametrize(
    "ignored",
    [
        frame(0xEE, 0xFF, 77, b"anything"),
        frame(PRIORITY, 0, 1, bytes(5)),
        frame(GOAWAY, 0, 0, bytes(8)),
        frame(PING, ACK, 0, b"unasked!"),
    ],
    ids=["unknown type", "PRIORITY", "GOAWAY", "PING answer"],
)
def test_frames_without_meaning_are_ignored(peer: Peer, ignored: bytes) -> None:
    assert peer.send(ignored) == []
    assert not peer.world.is_closing


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(DATA, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frame(DATA, 0, 5, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frame(DATA, PADDED, 1, b""), ErrorCode.FRAME_SIZE_ERROR),
        (frame(DATA, PADDED, 1, b"\x09short"), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 0, b""), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 2, b""), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 5, b"\xff\xff\xff\xff\xff\xff"), ErrorCode.COMPRESSION_ERROR),
        (frame(HEADERS, END_HEADERS, 5, b"\xbe"), ErrorCode.COMPRESSION_ERROR),
        (frame(HEADERS, END_HEADERS, 5, b"\x40\x85a"), ErrorCode.COMPRESSION_ERROR),
        (frame(HEADERS, END_HEADERS, 5, b"\x3f\xe1\x1f"), ErrorCode.COMPRESSION_ERROR),
        (frame(HEADERS, END_HEADERS | WITH_PRIORITY, 5, b"123"), ErrorCode.FRAME_SIZE_ERROR),
        (frame(HEADERS, 0, 5, b"") + frame(PING, 0, 0, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, 0, 5, b"") + frame(CONTINUATION, 4, 7), ErrorCode.PROTOCOL_ERROR),
        (frame(CONTINUATION, END_HEADERS, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (frame(PRIORITY, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
        (frame(RST_STREAM, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (rst_stream(0, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR),
        (rst_stream(9, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR),
        (frame(SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
        (frame(SETTINGS, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(SETTINGS, ACK, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
        (settings({Setting.ENABLE_PUSH: 2}), ErrorCode.PROTOCOL_ERROR),
        (settings({Setting.INITIAL_WINDOW_SIZE: 1 << 31}), ErrorCode.FLOW_CONTROL_ERROR),
        (settings({Setting.MAX_FRAME_SIZE: 16_383}), ErrorCode.PROTOCOL_ERROR),
        (settings({Setting.MAX_FRAME_SIZE: 1 << 24}), ErrorCode.PROTOCOL_ERROR),
        (frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(PING, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(GOAWAY, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(GOAWAY, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(WINDOW_UPDATE, 0, 0, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (window_update(0, 0), ErrorCode.PROTOCOL_ERROR),
        (window_update(0, LARGEST_STREAM), ErrorCode.FLOW_CONTROL_ERROR),
        (window_update(9, 1), ErrorCode.PROTOCOL_ERROR),
        (bytes((0, 0x40, 1, 0, 0, 0, 0, 0, 1)), ErrorCode.FRAME_SIZE_ERROR),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else value.hex()[:40],
)
def test_a_broken_rule_of_the_connection_ends_it(peer: Peer, sent: bytes, code: ErrorCode) -> None:
    peer.send(peer.headers())

    frames = peer.send(sent)

    assert goaway_in(frames) is code
    assert peer.world.is_closing
    assert peer.handler.ends == ["disconnect"]
    assert peer.send(frame(PING, 0, 0, bytes(8))) == []


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (window_update(1, 0), ErrorCode.PROTOCOL_ERROR),
        (window_update(1, LARGEST_STREAM), ErrorCode.FLOW_CONTROL_ERROR),
        (frame(PRIORITY, 0, 1, bytes(4)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(PRIORITY, 0, 1, b"\0\0\0\1\0"), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x84"), ErrorCode.PROTOCOL_ERROR),
        (data(1, b"", end=True) + data(1, b"x"), ErrorCode.STREAM_CLOSED),
        (data(1, b"", end=True) + frame(HEADERS, 5, 1), ErrorCode.STREAM_CLOSED),
    ],
    ids=[
        "window by nothing",
        "window too large",
        "PRIORITY too short",
        "depends on itself",
        "HEADERS without end",
        "pseudo-header in trailers",
        "DATA after the end",
        "HEADERS after the end",
    ],
)
def test_a_broken_rule_of_one_stream_resets_it(peer: Peer, sent: bytes, code: ErrorCode) -> None:
    peer.send(peer.headers(), peer.headers(3))

    frames = peer.send(sent)

    assert resets_in(frames) == {1: code}
    assert not peer.world.is_closing
    assert peer.handlers[0].ends[-1] == "disconnect"
    assert peer.handlers[1].ends == []


@pytest.mark.parametrize(
    "first",
    [frame(PING, 0, 0, bytes(8)), SETTINGS_ACK, frame(HEADERS, END_HEADERS, 1, b"")],
    ids=["PING", "SETTINGS ack", "HEADERS"],
)
def test_settings_have_to_come_first(first: bytes) -> None:
    peer = Peer()
    assert goaway_in(peer.send(PREFACE, first)) is ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "begin", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSX", b"\x16\x03\x01\x02\0"]
)
def test_what_is_not_http2_is_turned_away(begin: bytes) -> None:
    peer = Peer()
    assert goaway_in(peer.send(begin)) is ErrorCode.PROTOCOL_ERROR
    assert peer.world.is_closing


def test_unknown_methods_are_unimplemented_and_the_others_live_on(peer: Peer) -> None:
    fields = [(":path", "/test.Streams/Other") if f[0] == ":path" else f for f in REQUEST]

    frames = peer.send(peer.headers(1, fields=fields), peer.headers(3))

    assert peer.status(frames) is StatusCode.UNIMPLEMENTED
    assert resets_in(frames) == {1: ErrorCode.NO_ERROR}
    assert len(peer.handlers) == 1


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("content-type", "application/json", "415"),
        ("content-type", "application/grpc-web", "415"),
        (":method", "GET", "405"),
    ],
)
def test_what_is_not_grpc_is_answered_when_it_is_complete(
    peer: Peer, name: str, value: str, status: str
) -> None:
    fields = [(name, value) if f[0] == name else f for f in REQUEST]

    assert peer.send(peer.headers(fields=fields), data(1, b"{}")) == []
    frames = peer.send(data(1, b"", end=True))

    assert peer.decode(frames[0])[":status"] == status
    assert frames[-1].flags & END_STREAM
    assert peer.handlers == []


@pytest.mark.parametrize("kind", ["application/grpc+proto", "application/grpc;charset=utf-8"])
def test_kinds_of_grpc_content_are_taken(peer: Peer, kind: str) -> None:
    fields = [("content-type", kind) if f[0] == "content-type" else f for f in REQUEST]
    peer.send(peer.headers(fields=fields))
    assert len(peer.handlers) == 1


def test_a_deadline_ends_the_stream(peer: Peer) -> None:
    peer.send(peer.headers(extra=[("grpc-timeout", "1500m")]))

    peer.world.advance(1.4)
    assert peer.read() == []
    peer.world.advance(0.2)

    assert peer.status(peer.read()) is StatusCode.DEADLINE_EXCEEDED
    assert peer.handler.ends == ["disconnect"]
    assert peer.observer.codes == ["DeadlineExceeded"]


def test_a_stream_that_ends_in_time_has_no_timer_left(peer: Peer) -> None:
    peer.send(peer.headers(extra=[("grpc-timeout", "1S")]))
    peer.handler.outlet.close()
    peer.read()

    assert all(timer.is_cancelled for timer in peer.world.timers)
    peer.world.advance(2)
    assert peer.read() == []
    assert peer.observer.codes == ["OK"]


def test_a_timeout_that_is_none_ends_the_stream(peer: Peer) -> None:
    frames = peer.send(peer.headers(extra=[("grpc-timeout", "soon")]))
    assert peer.status(frames) is StatusCode.INTERNAL


def test_streams_over_the_limit_are_refused_and_may_be_retried() -> None:
    peer = Peer(limits=ConnectionLimits(max_streams=2))
    peer.greet()

    frames = peer.send(peer.headers(1), peer.headers(3), peer.headers(5))

    assert resets_in(frames) == {5: ErrorCode.REFUSED_STREAM}
    peer.send(rst_stream(1, ErrorCode.CANCEL))
    assert resets_in(peer.send(peer.headers(7))) == {}


def test_content_length_is_held_to(peer: Peer) -> None:
    length = [("content-length", "3")]
    frames = peer.send(
        peer.headers(1, extra=length),
        data(1, b"1234"),
        peer.headers(3, extra=length),
        data(3, b"12", end=True),
    )
    assert resets_in(frames) == {1: ErrorCode.PROTOCOL_ERROR, 3: ErrorCode.PROTOCOL_ERROR}


def test_a_factory_that_fails_ends_its_stream_only() -> None:
    def broken(outlet: Outlet) -> Recorder:
        raise ValueError("broken")

    peer = Peer(broken)
    peer.greet()

    assert peer.status(peer.send(peer.headers())) is StatusCode.INTERNAL
    assert not peer.world.is_closing


def test_draining_serves_streams_opened_before_the_peer_knew(peer: Peer) -> None:
    peer.send(peer.headers(1))

    peer.connection.drain()
    first, ping = peer.read()
    peer.send(peer.headers(3))
    last = peer.send(frame(PING, ACK, 0, ping.payload))

    assert int.from_bytes(first.payload[:4], "big") == LARGEST_STREAM
    assert int.from_bytes(last[0].payload[:4], "big") == 3
    assert peer.send(peer.headers(5), data(5, b"x")) == []
    assert len(peer.handlers) == 2
    for handler in peer.handlers:
        assert not peer.world.is_closing
        handler.outlet.close()
    peer.read()
    assert peer.world.is_closing


def test_draining_without_streams_closes_when_the_peer_knows(peer: Peer) -> None:
    peer.connection.drain()
    _, ping = peer.read()
    assert not peer.world.is_closing

    frames = peer.send(frame(PING, ACK, 0, ping.payload))

    assert goaway_in(frames) is ErrorCode.NO_ERROR
    assert peer.world.is_closing


def test_cutting_ends_streams_as_unavailable(peer: Peer) -> None:
    peer.send(peer.headers())

    peer.connection.cut("shutting down")

    frames = peer.read()
    assert peer.status(frames) is StatusCode.UNAVAILABLE
    assert goaway_in(frames) is ErrorCode.NO_ERROR
    assert peer.handler.ends == ["disconnect"]
    assert peer.observer.codes == ["Unavailable"]
    assert peer.world.is_closing


def test_equal_header_blocks_are_read_once_the_table_is_given_up(peer: Peer) -> None:
    # A block that adds to the table decodes to the same each time, as the table has no room.
    block = b"\x40\x01a\x01b" + frames_in(peer.headers())[0].payload
    fields = b"\x83\x86\x44" + bytes((len(PATH),)) + PATH.encode()
    fields += b"\x5f\x10application/grpc" + block[:5]
    for stream_id in (1, 3, 5):
        peer.send(frame(HEADERS, END_HEADERS, stream_id, fields))
    assert len(peer.handlers) == 3


def test_the_table_is_kept_until_the_settings_are_acknowledged() -> None:
    peer = Peer()
    peer.send(PREFACE, frame(SETTINGS, 0, 0))
    peer.send(peer.headers(1))  # adds to the table
    second = peer.headers(3)  # and refers to it

    peer.send(second)

    assert len(second) < 25
    assert len(peer.handlers) == 2


def test_our_table_is_given_up_once(peer: Peer) -> None:
    blocks = []
    for stream_id in (1, 3):
        peer.send(peer.headers(stream_id, end=True))
        peer.handler.outlet.close()
        blocks += [f.payload for f in peer.read()]
    assert [block.startswith(b"\x20") for block in blocks] == [True, False]


def test_a_fault_while_draining_is_the_last_word(peer: Peer) -> None:
    peer.send(peer.headers())
    peer.connection.drain()
    _, ping = peer.read()
    peer.send(frame(PING, ACK, 0, ping.payload))

    frames = peer.send(window_update(0, 0))

    assert goaway_in(frames) is ErrorCode.PROTOCOL_ERROR


def test_a_peer_that_does_not_answer_is_drained_all_the_same(peer: Peer) -> None:
    peer.connection.drain()
    peer.read()

    peer.world.advance(1)

    assert goaway_in(peer.read()) is ErrorCode.NO_ERROR
    assert peer.world.is_closing


def test_an_idle_stream_is_never_reset() -> None:
    peer = Peer()
    peer.greet()
    frames = peer.send(frame(PRIORITY, 0, 1, (1).to_bytes(4, "big") + b"\x10"))
    assert resets_in(frames) == {}
    assert goaway_in(frames) is ErrorCode.PROTOCOL_ERROR
