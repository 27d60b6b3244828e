from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from epp.transport.native.keepalive import Keepalive, Patience
from tests.fakes.transport.http2_peer import World


@dataclass
class Fake:
    """A peer as the keepalive sees it, and what is done with it."""

    is_established: bool = True
    newest_idle_stream: int | None = 0
    done: list[str] = field(default_factory=list)

    def ping(self) -> None:
        self.done.append("ping")

    def drain(self) -> None:
        self.done.append("drain")

    def give_up(self) -> None:
        self.done.append("give up")


def started(peer: Fake) -> tuple[Keepalive, World]:
    world = World()
    keepalive = Keepalive(
        Patience(pause_seconds=30, timeout_seconds=20, idle_pauses=3),
        peer,
        call_later=world.call_later,
        give_up=peer.give_up,
    )
    keepalive.start()
    return keepalive, world


def pauses(keepalive: Keepalive, world: World, count: int) -> None:
    """Rounds in which the peer answers."""
    for _ in range(count):
        world.advance(30)
        keepalive.heard = True
        world.advance(20)


def test_a_peer_that_answers_is_asked_again() -> None:
    peer = Fake(newest_idle_stream=None)
    pauses(*started(peer), 5)
    assert set(peer.done) == {"ping"}


def test_a_peer_that_says_nothing_is_given_up() -> None:
    peer = Fake()
    _, world = started(peer)
    world.advance(30)
    assert peer.done == ["ping"]
    world.advance(20)
    assert peer.done == ["ping", "give up"]


def test_a_peer_that_has_not_greeted_by_the_first_question_is_given_up() -> None:
    peer = Fake(is_established=False)
    _, world = started(peer)
    world.advance(30)
    assert peer.done == ["give up"]


def test_a_peer_without_streams_for_long_is_let_go() -> None:
    peer = Fake()
    keepalive, world = started(peer)
    pauses(keepalive, world, 3)
    assert "drain" not in peer.done
    pauses(keepalive, world, 1)
    assert peer.done.count("drain") == 1


@pytest.mark.parametrize("newest", [None, 3], ids=["an open stream", "a stream in between"])
def test_a_stream_now_and_then_keeps_a_connection(newest: int | None) -> None:
    peer = Fake(newest_idle_stream=1)
    keepalive, world = started(peer)
    for round_number in range(4):
        pauses(keepalive, world, 2)
        peer.newest_idle_stream = newest if round_number % 2 else 5 + round_number
        pauses(keepalive, world, 1)
    assert "drain" not in peer.done


def test_nothing_happens_once_stopped() -> None:
    peer = Fake()
    keepalive, world = started(peer)
    keepalive.stop()
    world.advance(100)
    assert peer.done == []
