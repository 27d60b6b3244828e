"""One stream as a gateway speaks it, with bodies and answers of every size."""

from __future__ import annotations

import asyncio
import gzip
import random
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import grpc

from epp.gateway.service import METHOD
from epp.wire import ext_proc_pb2 as wire
from tests.fakes.pickers.gateway_client import (
    body_modes,
    header_map,
    processing_request,
    read_answer,
)
from tests.fakes.pickers.held_streams import EVENT_STREAM, LAST, TOKEN
from tests.soak.ledger import NATURAL, Ledger

ANSWER_SECONDS = 60.0
"""Whoever waits so long was not answered: a bound, not a goal."""
FULL_DUPLEX = "FULL_DUPLEX_STREAMED"
STREAMED = "STREAMED"
PIECE_BYTES = 64 * 1024
USUAL_BYTES = 256 * 1024
"""Up to here the latency of picks is told: of larger bodies it is that of reading them."""
CHUNKS_AT_ONCE = 10
WHOLE_ANSWER = b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}'
LARGE_CHUNK = TOKEN * 300
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own
)
POST = {":method": "POST", ":path": "/v1/completions", "content-type": "application/json"}
_WORDS = random.Random(1)
_TEXT = b" ".join(b"%x" % _WORDS.getrandbits(24) for _ in range(620_000))
"""Over 4 MiB, and no more compressible than text is."""
_HEAD = b'{"model":"m%d","stream":true,"prompt":"%016x '
_TAIL = b'"}'


class Rejected(Exception):
    """The picker answered with an error of its own."""


class Unanswered(Exception):
    """The stream ended, or nothing came for long, where an answer is owed."""


def body_of(size: int, rng: random.Random) -> bytes:
    """A request's body: every other begins as one of a few prompts, the others like no other."""
    number = rng.choice((rng.getrandbits(64), rng.randrange(20)))
    head = _HEAD % (rng.randrange(10), number)
    return head + _TEXT[: max(size - len(head) - len(_TAIL), 0)] + _TAIL


@cache
def gzipped(size: int) -> bytes:
    """The body of one prompt, compressed; made once, since that takes its time."""
    return gzip.compress(body_of(size, random.Random(size)), compresslevel=1)


def open_channel(port: int) -> grpc.aio.Channel:
    """A connection to a picker, made when it is used."""
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)


class Talk:
    """One stream. Every step waits for the answers it is owed."""

    def __init__(self, channel: grpc.aio.Channel, ledger: Ledger, mode: str) -> None:
        method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)
        self._call = method()
        self._ledger = ledger
        self._mode = mode
        self._is_new = True
        self._sent_bytes = 0

    async def send(self, data: bytes) -> None:
        """Send one message as it is."""
        await self._call.write(data)

    async def say(self, kind: str, **parts: Any) -> None:
        """Send one message with one part."""
        message = processing_request(kind, **parts)
        if self._is_new:
            message.protocol_config.CopyFrom(body_modes(self._mode, self._mode))
            self._is_new = False
        await self.send(message.SerializeToString())

    async def read(self) -> bytes:
        """The next answer."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                data: object = await self._call.read()
        except TimeoutError:
            raise Unanswered(f"within {ANSWER_SECONDS} s") from None
        if not isinstance(data, bytes):
            raise Unanswered(f"the stream ended with {await self._call.code()}")
        return data

    async def headers(self, more: Mapping[str, str] | None = None, *, end: bool = False) -> None:
        """Send the request's headers."""
        named = header_map({**POST, **(more or {})})
        await self.say("request_headers", headers=named, end_of_stream=end)

    async def pieces(self, body: bytes, *, end: bool) -> None:
        """Send a body, or a part of it."""
        for start in range(0, len(body), PIECE_BYTES):
            piece = body[start : start + PIECE_BYTES]
            is_last = start + PIECE_BYTES >= len(body)
            self._sent_bytes += len(piece)
            await self.say("request_body", body=piece, end_of_stream=end and is_last)

    async def destination(self) -> str:
        """Wait for the pick. Raises `Rejected` for an error of the picker's own."""
        asked = time.monotonic()
        first = read_answer(await self.read())
        if first.kind == "immediate_response":
            assert first.status is not None
            self._ledger.rejected(first.status, first.details)
            await self.ends_with(grpc.StatusCode.OK)
            raise Rejected(f"{first.status} {first.details}")
        assert first.kind == "request_headers", first
        assert first.destination is not None, first
        if self._sent_bytes <= USUAL_BYTES:
            self._ledger.picked(time.monotonic() - asked)
        return first.destination

    async def body_again(self, size: int) -> None:
        """Wait until all of the body has been given back."""
        end = False
        while not end:
            answer = wire.ProcessingResponse.FromString(await self.read())
            piece = answer.request_body.response.body_mutation.streamed_response
            size -= len(piece.body)
            end = piece.end_of_stream
        assert size == 0, f"{size} bytes of the body did not come back"

    async def request(self, body: bytes, more: Mapping[str, str] | None = None) -> str:
        """A whole request; gives its destination once all has come back."""
        await self.headers(more)
        await self.pieces(body, end=True)
        destination = await self.destination()
        await self.body_again(len(body))
        return destination

    async def respond(self, status: str = "200") -> None:
        """Begin the response."""
        headers = header_map({**EVENT_STREAM, ":status": status})
        await self.say("response_headers", headers=headers)
        await self.read()

    async def chunks(self, count: int) -> None:
        """So many pieces of the response, a few at a time."""
        for start in range(0, count, CHUNKS_AT_ONCE):
            some = min(CHUNKS_AT_ONCE, count - start)
            for _ in range(some):
                await self.say("response_body", body=TOKEN)
            for _ in range(some):
                await self.read()

    async def finish(self, last: bytes = LAST) -> None:
        """End the response, and the stream."""
        await self.say("response_body", body=last, end_of_stream=True)
        answer = read_answer(await self.read())
        if self._mode == FULL_DUPLEX:
            assert answer.end, answer
            assert answer.body == last, "the response came back changed"
        self._ledger.ended(NATURAL)
        await self.half_close()
        await self.ends_with(grpc.StatusCode.OK)

    async def half_close(self) -> None:
        """Send no more."""
        await self._call.done_writing()

    async def ends_with(self, code: grpc.StatusCode) -> None:
        """The stream ends in this way, without another answer."""
        async with asyncio.timeout(ANSWER_SECONDS):
            ended_with = await self._call.code()
        assert ended_with is code, f"ended with {ended_with}"

    def cancel(self) -> None:
        """Leave at once."""
        self._call.cancel()
