"""grpcio and grpclib, making the calls of `interop`."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import grpc
import grpclib
import grpclib.client
import grpclib.const
import grpclib.encoding.base
import grpclib.exceptions

from epp.transport.certificates import CertificatePair
from epp.transport.streams import StatusCode
from tests.fakes.transport.interop import Call, Outcome


class Grpcio:
    """The C core, as many languages have it."""

    async def make(self, port: int, call: Call, tls: CertificatePair | None) -> Outcome:
        """Make one call on a connection of its own."""
        async with self._channel(port, tls) as channel:
            return await self._talk(channel, call)

    def _channel(self, port: int, tls: CertificatePair | None) -> grpc.aio.Channel:
        options = (
            ("grpc.max_receive_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_metadata_size", 65_536),
        )
        if tls is None:
            return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        credentials = grpc.ssl_channel_credentials(root_certificates=tls.chain)
        return grpc.aio.secure_channel(f"localhost:{port}", credentials, options=options)

    async def _talk(self, channel: grpc.aio.Channel, call: Call) -> Outcome:
        open_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            call.path
        )
        stream = open_stream(
            timeout=call.timeout,
            metadata=[
                (name, value.encode() if name.endswith("-bin") else value)
                for name, value in call.metadata.items()
            ],
            compression=grpc.Compression.Gzip if call.is_compressed else None,
        )
        answers: list[bytes] = []
        try:
            for step in call.steps:
                if isinstance(step, bytes):
                    await stream.write(step)
                else:
                    answers += [await stream.read() for _ in range(step)]  # type: ignore[misc]  # EOF is none of them
            if call.end == "cancel":
                stream.cancel()
            elif call.end == "half-close":
                await stream.done_writing()
            while isinstance(answer := await stream.read(), bytes):
                answers.append(answer)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # told by its status
        except asyncio.CancelledError:
            if call.end != "cancel":
                raise
        code: Any = await stream.code()
        return Outcome(code=code.value[0], message=await stream.details() or "", answers=answers)


class Grpclib:
    """Pure Python, on the h2 library."""

    async def make(self, port: int, call: Call, tls: CertificatePair | None) -> Outcome:
        """Make one call on a connection of its own."""
        async with grpclib.client.Channel(
            "localhost" if tls else "127.0.0.1",
            port,
            codec=_Bytes(),
            ssl=_trusting(tls) if tls is not None else None,
        ) as channel:
            return await self._talk(channel, call)

    async def _talk(self, channel: grpclib.client.Channel, call: Call) -> Outcome:
        answers: list[bytes] = []
        code, message = StatusCode.OK.value, ""
        stream = channel.request(
            call.path,
            grpclib.const.Cardinality.STREAM_STREAM,
            bytes,
            bytes,
            timeout=call.timeout,
            metadata=[
                (name, value.encode() if name.endswith("-bin") else value)
                for name, value in call.metadata.items()
            ],
        )
        try:
            async with stream:
                await self._act(stream, call, answers)
                if call.end == "cancel":
                    await stream.cancel()
                    code = StatusCode.CANCELLED.value
        except grpclib.exceptions.GRPCError as error:
            code, message = error.status.value, error.message or ""
        except TimeoutError:
            code = StatusCode.DEADLINE_EXCEEDED.value
        return Outcome(code=code, message=message, answers=answers)

    async def _act(
        self, stream: grpclib.client.Stream[bytes, bytes], call: Call, answers: list[bytes]
    ) -> None:
        await stream.send_request(end=call.end == "half-close" and not call.steps)
        for step in call.steps:
            if isinstance(step, bytes):
                await stream.send_message(step)
            else:
                for _ in range(step):
                    answer = await stream.recv_message()
                    assert answer is not None
                    answers.append(answer)
        if call.end == "cancel":
            return
        if call.end == "half-close" and call.steps:
            await stream.end()
        while (answer := await stream.recv_message()) is not None:
            answers.append(answer)
        await stream.recv_trailing_metadata()


class _Bytes(grpclib.encoding.base.CodecBase):
    """Messages as they are."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


def _trusting(pair: CertificatePair) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=pair.chain.decode())
    context.set_alpn_protocols(["h2"])
    return context
