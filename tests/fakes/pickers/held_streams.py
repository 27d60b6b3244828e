"""Streams that are brought to a state, held there, and ended in a chosen way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from typing import Any

import grpc

from tests.fakes.pickers.gateway_client import Exchange, GatewayClient

FIRST_HALF = b'{"model":"m","stream":true,"prompt":"' + b"word " * 3000
SECOND_HALF = b'"}'
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
LAST = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
EVENT_STREAM = {":status": "200", "content-type": "text/event-stream"}


class State(Enum):
    """Where a stream is held."""

    BODY_HALF_SENT = auto()
    DECIDED = auto()
    """Response headers have not come yet."""
    STREAMING = auto()
    """In the middle of an event stream."""


class End(Enum):
    """How a stream ends."""

    NATURAL = auto()
    CANCELLED = auto()
    HALF_CLOSED = auto()
    REJECTED = auto()
    """By the server: a bad request, or a message out of order."""
    CONNECTION_CLOSED = auto()
    CONNECTION_RESET = auto()

    @property
    def takes_the_connection(self) -> bool:
        """Whether all streams of the connection end with it."""
        return self in (End.CONNECTION_CLOSED, End.CONNECTION_RESET)


class HeldStream:
    """One stream and the state it has reached."""

    def __init__(self, client: GatewayClient, state: State, end: End) -> None:
        self._exchange: Exchange = client.exchange()
        self.state = state
        self.how = end

    async def open(self) -> None:
        """Bring the stream to its state."""
        exchange = self._exchange
        await exchange.request_headers()
        await exchange.request_body(FIRST_HALF)
        if self.state is State.BODY_HALF_SENT:
            return
        await self._decide()
        if self.state is State.STREAMING:
            await self._begin_response()

    async def token(self) -> None:
        """One more piece of the response, answered."""
        await self._exchange.response_body(TOKEN)
        await self._exchange.answer()

    async def finish(self) -> None:
        """End the stream in its way; nothing to do where the connection is taken."""
        ways: dict[End, Callable[[], Awaitable[None]]] = {
            End.NATURAL: self._finish_naturally,
            End.CANCELLED: self._cancel,
            End.HALF_CLOSED: self._half_close,
            End.REJECTED: self._get_rejected,
        }
        if self.how in ways:
            await ways[self.how]()

    async def _decide(self) -> None:
        await self._exchange.request_body(SECOND_HALF, end=True)
        await self._exchange.picked()

    async def _begin_response(self) -> None:
        await self._exchange.response_headers(EVENT_STREAM)
        await self._exchange.answer()
        await self.token()

    async def _finish_naturally(self) -> None:
        exchange = self._exchange
        if self.state is State.BODY_HALF_SENT:
            await self._decide()
        if self.state is not State.STREAMING:
            await self._begin_response()
        await exchange.response_body(LAST, end=True)
        assert (await exchange.answer()).end
        await exchange.half_close()
        await self._ends_with(grpc.StatusCode.OK)

    async def _cancel(self) -> None:
        self._exchange.cancel()

    async def _half_close(self) -> None:
        await self._exchange.half_close()
        half_a_body = self.state is State.BODY_HALF_SENT
        await self._ends_with(grpc.StatusCode.CANCELLED if half_a_body else grpc.StatusCode.OK)

    async def _get_rejected(self) -> None:
        exchange = self._exchange
        if self.state is State.BODY_HALF_SENT:
            await exchange.request_body(b"this is no JSON", end=True)
            assert (await exchange.answer()).status == 400
            await self._ends_with(grpc.StatusCode.OK)
        else:
            await exchange.request_headers()
            await self._ends_with(grpc.StatusCode.INVALID_ARGUMENT)

    async def _ends_with(self, code: grpc.StatusCode) -> None:
        assert await self._exchange.status() is code


async def all_of(steps: Iterable[Awaitable[Any]], at_once: int = 50) -> None:
    """Wait for all steps, a few at a time; the first failure is raised."""
    slots = asyncio.Semaphore(at_once)

    async def in_turn(step: Awaitable[Any]) -> None:
        async with slots:
            await step

    async with asyncio.TaskGroup() as group:
        for step in steps:
            group.create_task(in_turn(step))
