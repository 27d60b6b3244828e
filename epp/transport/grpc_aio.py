"""gRPC servers on grpc.aio: ports, limits, and streams as bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Sequence
from typing import Any

import grpc
import structlog

from epp.framework.errors import PortTaken
from epp.transport.crowding import MAX_CONNECTIONS, STREAMS_PART, connections_within
from epp.transport.grpc_stream import (
    GrpcStream,
    MessageTooLarge,
    PeerGone,
    ServicerContext,
    StreamEnd,
)
from epp.transport.streams import (
    GO_NAMES,
    StatusCode,
    StreamHandler,
    StreamHandlerFactory,
    StreamObserver,
)
from epp.transport.streams import MessageLimits as MessageLimits

log = structlog.get_logger(__name__)

_GRPC_CODES = {code.value[0]: code for code in grpc.StatusCode}

# grpcio ends a stream whose message is over its own limit without telling us. Up to this much over
# the limit we see the message, and can name the flag in the log.
_SILENT_LIMIT_MARGIN = 64 * 1024 * 1024
_LARGEST_INTEGER = 2**31 - 1

# grpcio's own pause is two hours. So long, requests of a gateway that is gone without a word, with
# its machine or frozen, would count as in flight and hold their bodies.
_KEEPALIVE_PAUSE_MS = 30_000
_KEEPALIVE_TIMEOUT_MS = 20_000

_HANDSHAKE_TIMEOUT_MS = 10_000
"""TLS, and the client's first SETTINGS."""


class StreamService:
    """Serves one bidirectional method; every stream gets a handler of its own."""

    def __init__(
        self,
        *,
        service: str,
        method: str,
        handler_factory: StreamHandlerFactory,
        limits: MessageLimits,
        observer: StreamObserver,
    ) -> None:
        self._service = service
        self._method = method
        self._handler_factory = handler_factory
        self.limits = limits
        self._observer = observer
        self._has_named_limit = False
        self._cut_at: float | None = None
        self._open_streams: set[asyncio.Task[Any]] = set()

    def generic_handler(self) -> grpc.GenericRpcHandler:
        """What a `GrpcServer` takes."""
        method_handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self._serve
        )
        return grpc.method_handlers_generic_handler(self._service, {self._method: method_handler})

    def cut_after(self, grace: float) -> None:
        """Streams cancelled later than this were cut by us, not cancelled by the peer."""
        self._cut_at = time.monotonic() + grace

    async def all_closed(self) -> None:
        """Wait until the handlers of all open streams have seen their end."""
        while self._open_streams:
            await asyncio.wait(self._open_streams)

    async def _serve(self, _: AsyncIterable[bytes], context: ServicerContext) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open_streams.add(task)
        task.add_done_callback(self._open_streams.discard)
        self._observer.stream_opened()
        started = time.monotonic()
        stream = GrpcStream(context, task, self.limits.max_receive_bytes)
        code = StatusCode.CANCELLED
        try:
            end = await self._converse(stream)
            code = end.code
        except asyncio.CancelledError:
            if stream.nothing_left:
                code = StatusCode.OK
            elif self._cut_at is not None and time.monotonic() >= self._cut_at:
                code = StatusCode.UNAVAILABLE  # what grpcio tells the peer when it cuts streams
            raise
        finally:
            self._observer.stream_closed(GO_NAMES[code], time.monotonic() - started)
            await stream.dispose()
        # Not `abort`: its exception and the frames it went through would live until the collector
        # looks, with all that the stream held.
        context.set_code(_GRPC_CODES[code])
        context.set_details(end.message)

    async def _converse(self, stream: GrpcStream) -> StreamEnd:
        handler: StreamHandler | None = None
        try:
            handler = self._handler_factory(stream)
            return await stream.converse(handler)
        except asyncio.CancelledError:
            self._disconnect(handler, stream)
            raise
        except PeerGone as error:
            self._disconnect(handler, stream)
            raise asyncio.CancelledError from error
        except MessageTooLarge as error:
            self._disconnect(handler, stream)
            return self._refuse(error.size)
        except Exception:
            values = handler.log_values() if handler is not None else {}
            log.exception("stream handler failed", method=self._method, **values)
            self._disconnect(handler, stream)
            return StreamEnd(StatusCode.INTERNAL, "internal error")
        except BaseException:
            self._disconnect(handler, stream)
            raise

    def _disconnect(self, handler: StreamHandler | None, stream: GrpcStream) -> None:
        if handler is None or stream.end is not None:
            return
        try:
            stream.nothing_left = handler.on_disconnect()
        except Exception:
            log.exception(
                "stream handler failed to disconnect", method=self._method, **handler.log_values()
            )

    def _refuse(self, size: int) -> StreamEnd:
        flag, limit = self.limits.receive_flag, self.limits.max_receive_bytes
        if not self._has_named_limit:
            self._has_named_limit = True
            log.warning(
                "message larger than the receive limit, raise it (said once)",
                flag=flag,
                limit_bytes=limit,
                message_bytes=size,
            )
        message = f"message of {size} bytes is larger than {flag} allows ({limit} bytes)"
        return StreamEnd(StatusCode.RESOURCE_EXHAUSTED, message)


class GrpcServer:
    """One listening port with the services it offers."""

    def __init__(
        self,
        *,
        address: str,
        port: int,
        port_flag: str,
        handlers: Sequence[grpc.GenericRpcHandler] = (),
        stream_service: StreamService | None = None,
        credentials: grpc.ServerCredentials | None = None,
        max_connections: int = MAX_CONNECTIONS,
        part_of_files: int = STREAMS_PART,
    ) -> None:
        self._address = address
        self._port = port
        self._port_flag = port_flag
        self._credentials = credentials
        self._stream_service = stream_service
        self._handlers = tuple(handlers)
        if stream_service is not None:
            self._handlers += (stream_service.generic_handler(),)
        self._limits = stream_service.limits if stream_service is not None else MessageLimits()
        self._max_connections = connections_within(max_connections, part_of_files)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> int:
        """Listen and serve; return the port, which port 0 leaves to the system."""
        options = _options(self._limits, self._max_connections)
        server = grpc.aio.server(handlers=self._handlers, options=options)
        target = f"{self._address}:{self._port}"
        try:
            if self._credentials is None:
                port = server.add_insecure_port(target)
            else:
                port = server.add_secure_port(target, self._credentials)
        except RuntimeError as error:
            raise PortTaken(
                f"{self._port_flag}: can't listen on {target}; another process may use the port"
            ) from error
        await server.start()
        self._server = server
        return port

    async def stop(self, grace: float) -> None:
        """Accept no more streams, wait up to `grace` seconds for open ones, then cut them."""
        if self._server is None:
            return
        if self._stream_service is not None:
            self._stream_service.cut_after(grace)
        await self._server.stop(grace)
        if self._stream_service is not None:
            await self._stream_service.all_closed()


def _options(limits: MessageLimits, max_connections: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_allowed_incoming_connections", max_connections),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_TIMEOUT_MS),
        (
            "grpc.max_receive_message_length",
            _core_limit(limits.max_receive_bytes, _SILENT_LIMIT_MARGIN),
        ),
        ("grpc.max_send_message_length", _core_limit(limits.max_send_bytes)),
        ("grpc.so_reuseport", 0),  # a second process on the port is a mistake, not a helper
        ("grpc.http2.max_ping_strikes", 0),  # gateways ping as often as they like
        ("grpc.keepalive_time_ms", _KEEPALIVE_PAUSE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", _KEEPALIVE_TIMEOUT_MS),  # else the least wait is a minute
        ("grpc.http2.max_pings_without_data", 0),  # no limit: long responses have long pauses
        # From 1000 new streams that the event loop has not taken yet grpcio cancels some, from 3000
        # all, anybody's; a busy moment is enough. A handler rejects with an answer.
        ("grpc.server.max_pending_requests", _LARGEST_INTEGER),
        ("grpc.server.max_pending_requests_hard_limit", _LARGEST_INTEGER),
    ]


def _core_limit(limit: int | None, margin: int = 0) -> int:
    if limit is None or limit + margin > _LARGEST_INTEGER:
        return -1
    return limit + margin
