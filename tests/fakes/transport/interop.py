"""Calls that any gRPC client can make, and what has to come of them on the native transport."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from epp.gateway.service import METHOD
from epp.transport.certificates import CertificatePair
from epp.transport.native.methods import StreamMethod
from epp.transport.native.server import NativeServer
from epp.transport.native.tls import ServerTls
from epp.transport.streams import MessageLimits, StatusCode
from tests.benchmarks import state_machine
from tests.benchmarks.traffic import FULL_DUPLEX, STREAMED, traffic
from tests.fakes.certificates import new_pair
from tests.fakes.eventually import eventually
from tests.fakes.transport.native_streams import PATH, native_server
from tests.fakes.transport.obeying import Obeying
from tests.fakes.transport.streams import CountingObserver

LIMITS = MessageLimits(max_receive_bytes=100_000)
DONE = b"you are done"
ENDPOINT = "10.0.0.1:8000"
"""The only one, so that all picks are alike."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a client does, and what it is told."""

    steps: Sequence[bytes | int] = ()
    """Messages to send, and numbers of answers to read."""
    path: str = PATH
    end: Literal["half-close", "wait", "cancel"] = "half-close"
    timeout: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_compressed: bool = False
    code: StatusCode = StatusCode.OK
    message: str | None = ""
    """None where it is the client's own."""
    answers: Sequence[bytes] | None = None
    """None where it is a matter of chance how many come."""
    counted_as: str = ""
    """By the server, where that can be told from the outside."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a client was told."""

    code: int
    message: str
    answers: list[bytes]


class Client(Protocol):
    """A gRPC implementation."""

    async def make(self, port: int, call: Call, tls: CertificatePair | None) -> Outcome:
        """Make one call on a connection of its own."""


def check(call: Call, outcome: Outcome) -> None:
    """Hold what happened to what had to happen."""
    assert outcome.code == call.code, outcome.message
    if call.message is not None:
        assert outcome.message == call.message
    if call.answers is not None:
        assert outcome.answers == list(call.answers)


def server(pair: CertificatePair | None, observer: CountingObserver) -> NativeServer:
    """The picker's method beside one that obeys."""
    return native_server(
        Obeying,
        methods=[
            StreamMethod(METHOD, state_machine.processor([ENDPOINT]), observer=CountingObserver())
        ],
        limits=LIMITS,
        observer=observer,
        tls=ServerTls(pair) if pair is not None else None,
    )


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server to call."""

    port: int
    pair: CertificatePair | None
    observer: CountingObserver


@asynccontextmanager
async def running_server(*, with_tls: bool) -> AsyncIterator[Running]:
    """A server that has to be left without a stream and a byte."""
    pair = new_pair() if with_tls else None
    observer = CountingObserver()
    serving = server(pair, observer)
    yield Running(port=await serving.start(), pair=pair, observer=observer)
    await eventually(lambda: serving.open_streams == 0)
    await serving.stop(0)
    assert serving.held_bytes == 0


def exchange(kib: int, chunks: int, mode: str) -> Call:
    """A whole request through the picker."""
    sent = traffic(kib * 1024, chunks, mode)
    expected = state_machine.answers_to_request(sent)
    sink = state_machine.Sink()
    handler = state_machine.processor([ENDPOINT])(sink)
    steps: list[bytes | int] = [*sent.request, expected]
    for message in sent.response:
        steps += (message, 1)
    for step in steps:
        if isinstance(step, bytes):
            handler.on_message(step)
    return Call(path=METHOD, steps=steps, answers=sink.messages)


BIG = bytes(range(256)) * 380
CALLS = {
    "a request, 500 chunks": exchange(1, 500, FULL_DUPLEX),
    "a large request": exchange(700, 5, FULL_DUPLEX),
    "a streamed request": exchange(128, 50, STREAMED),
    "echoes": Call(steps=(b"a", 1, b"", b"c", 2, BIG, 1), answers=(b"a", b"", b"c", BIG, DONE)),
    "nothing but an end": Call(answers=(DONE,)),
    "answers over the window": Call(
        steps=(b"flood", 40, b"x", 1), answers=(*[bytes(10_000)] * 40, b"x", DONE)
    ),
    "an error without messages": Call(
        steps=(b"unavailable",),
        end="wait",
        code=StatusCode.UNAVAILABLE,
        message="gone, 100% ä",
        answers=(),
        counted_as="Unavailable",
    ),
    "an error after a message": Call(
        steps=(b"x", 1, b"unavailable"),
        end="wait",
        code=StatusCode.UNAVAILABLE,
        message="gone, 100% ä",
        answers=(b"x",),
        counted_as="Unavailable",
    ),
    "a handler that fails": Call(
        steps=(b"raise",),
        end="wait",
        code=StatusCode.INTERNAL,
        message="internal error",
        counted_as="Internal",
    ),
    "a deadline": Call(
        steps=(b"x", 1, b"silence"),
        end="wait",
        timeout=0.3,
        code=StatusCode.DEADLINE_EXCEEDED,
        message=None,
    ),
    "a message that is too large": Call(
        steps=(b"x", 1, bytes(100_001)),
        end="wait",
        code=StatusCode.RESOURCE_EXHAUSTED,
        message="message of 100001 bytes is larger than --grpc-max-recv-msg-size allows"
        " (100000 bytes)",
        answers=(b"x",),
        counted_as="ResourceExhausted",
    ),
    "an unknown method": Call(
        path="/test.Streams/Other",
        end="wait",
        code=StatusCode.UNIMPLEMENTED,
        message="unknown service or method",
        answers=(),
    ),
    "metadata": Call(
        steps=(b"x", 1),
        metadata={"x-text": "a b c", "x-long": "v" * 6000, "x-thing-bin": "\0\1ab"},
        answers=(b"x", DONE),
    ),
    "a client that cancels": Call(
        steps=(b"x", 1), end="cancel", code=StatusCode.CANCELLED, message=None,
        answers=(b"x",), counted_as="Canceled",
    ),
}  # fmt: skip
COMPRESSED = Call(
    steps=(b"a" * 5000,),
    end="wait",
    is_compressed=True,
    code=StatusCode.UNIMPLEMENTED,
    message="messages compressed in another way than identity are not understood",
    answers=(),
    counted_as="Unimplemented",
)
