"""One gRPC stream between its `StreamHandler` and grpc.aio: who reads and writes when."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import grpc
import structlog

from epp.transport.message_generators import close_generator
from epp.transport.streams import StatusCode, StreamHandler

log = structlog.get_logger(__name__)

ServicerContext: TypeAlias = grpc.aio.ServicerContext[bytes, bytes]


class PeerGone(Exception):
    """The peer can't be reached on this stream any more."""


class MessageTooLarge(Exception):
    """The peer sent a message over the limit."""

    def __init__(self, size: int) -> None:
        super().__init__(f"message of {size} bytes")
        self.size = size


class StreamEnd(NamedTuple):
    """How a handler ended its stream."""

    code: StatusCode
    message: str


class GrpcStream:
    """The outlet of one stream, and the loop that feeds its handler.

    grpc.aio's own task reads and writes in turn: a message is read when all answers to the last
    one have been written. An answer that comes while it waits for the next message is written by
    a second task, the only one a stream may have besides.
    """

    def __init__(
        self,
        context: ServicerContext,
        task: asyncio.Task[Any],
        max_message_bytes: int | None,
    ) -> None:
        self._context = context
        self._task = task
        self._max_message_bytes = max_message_bytes
        self._queue: deque[Iterator[bytes]] = deque()
        self._end: StreamEnd | None = None
        self._is_reading = False
        self._is_interrupted = False
        self._wake_up: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self.nothing_left = False
        """What its handler said when the peer was gone."""

    @property
    def end(self) -> StreamEnd | None:
        """How the handler ended the stream, None as long as it has not."""
        return self._end

    def send(self, messages: Iterable[bytes]) -> None:
        """Queue messages, in order (see `Outlet`)."""
        if self._end is not None:
            close_generator(messages)
            return
        self._queue.append(iter(messages))
        self._wake()

    def close(self, code: StatusCode = StatusCode.OK, message: str = "") -> None:
        """End the stream once everything queued has gone out."""
        if self._end is None:
            self._end = StreamEnd(code, message)
            self._wake()

    def fail(self, code: StatusCode, message: str) -> None:
        """End the stream now: grpcio, which waits for the peer to read, has one status for it."""
        del code, message
        self._task.cancel()

    async def converse(self, handler: StreamHandler) -> StreamEnd:
        """Feed the handler until it has ended the stream and all it queued has been written.

        Raises what the handler or one of its generators raises, `PeerGone`, `MessageTooLarge`, and
        CancelledError when the peer or the server cancels the stream.
        """
        while True:
            if self._queue or self._writer is not None:
                await self._write_queue()
            if self._end is not None:
                return self._end
            message = await self._read()
            if message is None:
                break
            handler.on_message(message)
        if self._end is None:
            handler.on_half_close()
        await self._write_queue()
        while self._end is None:
            self._wake_up = asyncio.get_running_loop().create_future()
            await self._wake_up
            await self._write_queue()
        return self._end

    async def dispose(self) -> None:
        """Drop what was not written and end the second task."""
        if self._end is None:
            self._end = StreamEnd(StatusCode.CANCELLED, "")
        queue, self._queue = self._queue, deque()
        for messages in queue:
            close_generator(messages)
        writer, self._writer = self._writer, None
        self._failure = self._wake_up = None
        if writer is not None:
            writer.cancel()
            await asyncio.wait((writer,))

    async def _read(self) -> bytes | None:
        """The next message; None when there are no more, or when the stream was ended meanwhile."""
        self._is_reading = True
        try:
            message = await self._context.read()
            if not isinstance(message, bytes):
                # A reset reads as the end, too. The cancellation that tells them apart is seen
                # before the result of a second read, always (of 3000 resets none was taken for an
                # end; turns of the loop instead of the read let some pass).
                await self._context.read()
        except asyncio.CancelledError:
            if not (self._is_interrupted and self._task.uncancel() == 0):
                raise
            if self._failure is not None:
                raise self._failure from None
            return None
        except grpc.aio.BaseError as error:
            raise PeerGone from error
        finally:
            self._is_reading = False
        if not isinstance(message, bytes):
            return None
        if self._max_message_bytes is not None and len(message) > self._max_message_bytes:
            raise MessageTooLarge(len(message))
        return message

    async def _write_queue(self) -> None:
        """Wait until everything queued has been written, by whomever."""
        if self._writer is not None:
            await self._writer
        if self._failure is not None:
            raise self._failure
        await self._drain()

    async def _drain(self) -> None:
        queue, write = self._queue, self._context.write
        while queue:
            for message in queue[0]:
                try:
                    await write(message)
                except grpc.aio.BaseError as error:
                    raise PeerGone from error
            queue.popleft()

    def _wake(self) -> None:
        """Get written what the handler has just queued, unless its own turn will do that."""
        if self._wake_up is not None:
            if not self._wake_up.done():
                self._wake_up.set_result(None)
        elif self._is_reading and self._writer is None:
            if self._queue:
                self._writer = asyncio.create_task(self._write_out_of_turn(), name="stream writer")
            else:
                self._interrupt_read()

    async def _write_out_of_turn(self) -> None:
        try:
            await self._drain()
        except Exception as error:  # noqa: BLE001 - a generator's, raised again by the reading task
            self._failure = error
        self._writer = None
        if self._failure is not None or self._end is not None:
            self._interrupt_read()

    def _interrupt_read(self) -> None:
        """Make a pending `_read` return: there will be no more to read for."""
        if self._is_reading and not self._is_interrupted:
            self._is_interrupted = True
            self._task.cancel()
