"""Stream handlers that behave simply and tell what happened to them, and a client for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import grpc

from epp.transport.crowding import MAX_CONNECTIONS
from epp.transport.grpc_aio import GrpcServer, MessageLimits, StreamService
from epp.transport.streams import Outlet, StreamHandler, StreamHandlerFactory

SERVICE = "test.Streams"
METHOD = "Talk"

Call = grpc.aio.StreamStreamCall[bytes, bytes]


class CountingObserver:
    """Keeps what a metric would count."""

    def __init__(self) -> None:
        self.opened = 0
        self.codes: list[str] = []

    def stream_opened(self) -> None:
        self.opened += 1

    def stream_closed(self, code: str, seconds: float) -> None:
        assert seconds >= 0
        self.codes.append(code)


class TellingHandler:
    """Puts everything that happens to it in a queue; echoes messages and closes with the peer."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.events: asyncio.Queue[object] = asyncio.Queue()

    def on_message(self, message: bytes) -> None:
        self.events.put_nowait(message)
        self.outlet.send((message,))

    def on_half_close(self) -> None:
        self.events.put_nowait("half-close")
        self.outlet.close()

    def on_disconnect(self) -> bool:
        self.events.put_nowait("disconnect")
        return False

    def log_values(self) -> Mapping[str, str]:
        return {"stream": "a"}


class SilentHandler(TellingHandler):
    """Answers nothing by itself: the test holds its outlet."""

    def on_message(self, message: bytes) -> None:
        self.events.put_nowait(message)

    def on_half_close(self) -> None:
        self.events.put_nowait("half-close")


class Opened:
    """A factory that hands the handlers it made to the test."""

    def __init__(self, make: Callable[[Outlet], TellingHandler]) -> None:
        self._make = make
        self._handlers: asyncio.Queue[TellingHandler] = asyncio.Queue()

    def __call__(self, outlet: Outlet) -> StreamHandler:
        handler = self._make(outlet)
        self._handlers.put_nowait(handler)
        return handler

    async def next(self) -> TellingHandler:
        return await self._handlers.get()


class StreamServer(Protocol):
    """A server of either transport."""

    async def start(self) -> int: ...

    async def stop(self, grace: float) -> None: ...


class ServerFactory(Protocol):
    """Makes a server of the test service, not started yet."""

    def __call__(
        self,
        factory: StreamHandlerFactory,
        *,
        limits: MessageLimits | None = None,
        observer: CountingObserver | None = None,
    ) -> StreamServer: ...


class Serving(Protocol):
    """Runs such a server and connects a client to it."""

    def __call__(
        self,
        factory: StreamHandlerFactory,
        *,
        limits: MessageLimits | None = None,
        observer: CountingObserver | None = None,
        client_options: tuple[tuple[str, int], ...] = (),
    ) -> AbstractAsyncContextManager[StreamClient]: ...


class StreamClient:
    """Opens streams to one server."""

    def __init__(self, channel: grpc.aio.Channel, server: StreamServer) -> None:
        self.server = server
        self._open: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            f"/{SERVICE}/{METHOD}"
        )

    def open(self) -> Call:
        return self._open()


def stream_server(
    factory: StreamHandlerFactory,
    *,
    handlers: Sequence[grpc.GenericRpcHandler] = (),
    limits: MessageLimits | None = None,
    observer: CountingObserver | None = None,
    credentials: grpc.ServerCredentials | None = None,
    max_connections: int = MAX_CONNECTIONS,
) -> GrpcServer:
    """A server of the test service, not started yet."""
    return GrpcServer(
        address="127.0.0.1",
        port=0,
        port_flag="--grpc-port",
        handlers=handlers,
        stream_service=StreamService(
            service=SERVICE,
            method=METHOD,
            handler_factory=factory,
            limits=limits or MessageLimits(),
            observer=observer or CountingObserver(),
        ),
        credentials=credentials,
        max_connections=max_connections,
    )


@asynccontextmanager
async def serving(
    factory: StreamHandlerFactory,
    *,
    limits: MessageLimits | None = None,
    observer: CountingObserver | None = None,
    client_options: tuple[tuple[str, int], ...] = (),
    make_server: ServerFactory = stream_server,
) -> AsyncIterator[StreamClient]:
    """A server on a port of the system's choice, and a client connected to it."""
    server = make_server(factory, limits=limits, observer=observer)
    port = await server.start()
    options = (
        ("grpc.max_receive_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        *client_options,
    )
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            yield StreamClient(channel, server)
    finally:
        await server.stop(0)


async def read_all(call: Call) -> list[bytes]:
    """What the server still sends until it ends the stream."""
    messages: list[bytes] = []
    while True:
        message: object = await call.read()
        if not isinstance(message, bytes):
            return messages
        messages.append(message)
