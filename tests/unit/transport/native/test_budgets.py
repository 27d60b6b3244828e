"""What the connections of one listener share."""

from __future__ import annotations

from epp.transport.native.budgets import Budget, HeadCache, HeldBytes, OpenStreams
from epp.transport.native.frames import PREFACE, SETTINGS, ErrorCode, frame, rst_stream
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.request_head import RequestHead
from tests.fakes.transport.http2_peer import Peer, data, message, resets_in

FEW_RESETS = ConnectionLimits(burst_of_resets=5, resets_per_second=0)


def budget(streams: int = 100) -> Budget:
    return Budget(held=HeldBytes(1 << 20), streams=OpenStreams(streams))


def test_streams_of_all_connections_are_bounded_and_make_room_when_they_end() -> None:
    shared = budget(streams=3)
    first, second = Peer(budget=shared), Peer(budget=shared, limits=FEW_RESETS)
    for peer in (first, second):
        peer.greet()
    first.send(first.headers(1), first.headers(3))

    frames = second.send(*(second.headers(stream_id) for stream_id in range(1, 41, 2)))

    assert len(second.handlers) == 1
    assert resets_in(frames) == dict.fromkeys(range(3, 41, 2), ErrorCode.REFUSED_STREAM)
    assert not second.world.is_closing
    first.send(rst_stream(1, ErrorCode.CANCEL))
    second.send(second.headers(41))
    assert len(second.handlers) == 2


def test_streams_are_counted_out_however_they_end() -> None:
    shared = budget()
    peer = Peer(budget=shared)
    peer.greet()
    for stream_id in range(1, 13, 2):
        peer.send(peer.headers(stream_id))
    peer.handlers[0].outlet.close()
    peer.send(rst_stream(3, ErrorCode.CANCEL))
    peer.send(data(5, message(b"x", flag=7)))
    peer.send(peer.headers(13, fields=[(":method", "GET"), (":scheme", "http"), (":path", "/")]))
    assert shared.streams.count == 4

    peer.connection.lost()

    assert shared.streams.count == 0


def test_a_head_is_known_to_all_connections_that_keep_no_table() -> None:
    shared = budget()
    for _ in range(2):
        peer = Peer(budget=shared)
        peer.greet()
        peer.send(peer.headers())
        assert len(peer.handlers) == 1
    assert len(shared.heads) == 1


def test_a_block_that_may_mean_something_else_is_decoded() -> None:
    shared = budget()
    one = Peer(budget=shared)
    one.greet()
    one.send(one.headers())
    other = Peer(budget=shared)
    other.send(PREFACE, frame(SETTINGS, 0, 0))
    # The first request goes to the table, so that the second is made of indices into it.
    other.send(other.headers(1))
    other.send(other.headers(3))
    assert len(other.handlers) == 2
    assert len(shared.heads) == 1


def test_the_cache_of_heads_is_bounded() -> None:
    cache = HeadCache()
    for number in range(10_000):
        cache.put(b"%d" % number, RequestHead())
        assert len(cache) <= 256
    assert cache.get(b"9999") == RequestHead()


def test_who_holds_little_has_a_sixteenth_on_top_of_what_others_hold() -> None:
    held = HeldBytes(1 << 20)
    held.used = 1 << 20
    assert not held.is_too_much_for(1 << 20)

    held.used += 1

    assert held.is_too_much_for(1025)
    assert not held.is_too_much_for(1024)
    held.used = (1 << 20) + (1 << 16)
    assert not held.is_too_much_for(1024)
    held.used += 1
    assert held.is_too_much_for(1)
