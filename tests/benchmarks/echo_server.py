"""The yardstick: grpc.aio answers each message with itself, as cheaply as it can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable

import grpc

from epp.gateway.service import METHOD_NAME, SERVICE_NAME
from epp.support.event_loop import run_in_loop


async def _echo(_: AsyncIterable[bytes], context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
    while isinstance(message := await context.read(), bytes):
        await context.write(message)


async def _serve() -> None:
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(_echo)
    service = grpc.method_handlers_generic_handler(SERVICE_NAME, {METHOD_NAME: handler})
    server = grpc.aio.server(handlers=[service], options=[("grpc.max_receive_message_length", -1)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"port {port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    run_in_loop(_serve())
