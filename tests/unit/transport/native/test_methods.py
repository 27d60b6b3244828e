from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2

from epp.gateway.health import HealthState
from epp.gateway.health_methods import health_methods
from epp.transport.native.methods import CallFailed, StreamMethod, unary
from epp.transport.streams import Outlet, StatusCode, StreamHandler
from tests.fakes.transport.http2_peer import Frame, Peer, data, message, messages_of


def refuse(_: bytes) -> bytes:
    raise CallFailed(StatusCode.INVALID_ARGUMENT, "not this")


def break_down(_: bytes) -> bytes:
    raise ValueError("broken")


def call(answer: object, *messages: bytes) -> tuple[StatusCode, list[bytes]]:
    """Call a unary method with so many messages."""
    assert callable(answer)
    peer = Peer(unary(answer))
    peer.greet()
    frames = peer.send(peer.headers(), data(1, b"".join(map(message, messages)), end=True))
    return peer.status(frames), messages_of(frames)


def test_one_message_is_answered_with_one() -> None:
    assert call(bytes.upper, b"hello") == (StatusCode.OK, [b"HELLO"])


@pytest.mark.parametrize("messages", [[], [b"a", b"b"]], ids=["none", "two"])
def test_any_other_number_of_messages_is_an_error(messages: list[bytes]) -> None:
    assert call(bytes.upper, *messages) == (StatusCode.INTERNAL, [])


def test_a_method_may_answer_with_a_status() -> None:
    assert call(refuse, b"x") == (StatusCode.INVALID_ARGUMENT, [])


def test_a_method_that_fails_ends_its_call() -> None:
    assert call(break_down, b"x") == (StatusCode.INTERNAL, [])


@pytest.fixture
def state() -> HealthState:
    return HealthState()


def watching(state: HealthState) -> Peer:
    """Who watches the readiness, and has been told of it."""
    watch: StreamMethod = health_methods(state)[-1]

    def make(outlet: Outlet) -> StreamHandler:
        return watch.handler_factory(outlet)

    peer = Peer(make)
    peer.greet()
    question = health_pb2.HealthCheckRequest(service="readiness").SerializeToString()
    frames = peer.send(peer.headers(), data(1, message(question), end=True))
    assert told(frames) == [health_pb2.HealthCheckResponse.NOT_SERVING]
    return peer


def told(frames: list[Frame]) -> list[int]:
    answers = map(health_pb2.HealthCheckResponse.FromString, messages_of(frames))
    return [answer.status for answer in answers]


def test_a_watch_is_told_of_another_status_once(state: HealthState) -> None:
    peer = watching(state)
    state.set_synced(True)
    state.set_leader(True)
    assert told(peer.read()) == [health_pb2.HealthCheckResponse.SERVING]


def test_a_watch_ends_with_the_state(state: HealthState) -> None:
    peer = watching(state)
    state.close()
    frames = peer.read()
    assert peer.observer.codes == ["OK"]
    assert told(frames) == []


def test_a_watcher_that_left_is_not_told(state: HealthState) -> None:
    peer = watching(state)
    peer.connection.lost()

    state.set_synced(True)
    state.close()

    assert peer.observer.codes == ["Canceled"]
    assert peer.held.used == 0


def test_a_question_that_is_none_is_an_error(state: HealthState) -> None:
    for method in health_methods(state):
        if method.path.endswith("List"):
            continue
        peer = Peer(method.handler_factory)
        peer.greet()
        frames = peer.send(peer.headers(), data(1, message(b"\xff\xff"), end=True))
        assert peer.status(frames) is StatusCode.INTERNAL
