"""Calls to a picker as a gateway makes them: health, and one request that is never sent on."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

import grpc
import msgspec
from grpc_health.v1 import health_pb2

from epp.diagnosis.doctor_options import HostPort
from epp.diagnosis.port_look import PortLook, Speaks, unverified_tls
from epp.gateway.health import EXT_PROC_SERVICE
from epp.gateway.messages import DESTINATION_HEADER, DESTINATION_NAMESPACE
from epp.gateway.service import METHOD
from epp.wire import ext_proc_pb2 as wire

_HEALTH = "/grpc.health.v1.Health/Check"
_PIECE = 1 << 16
_NO_LIMIT = -1
_REJECTION_REASON = "x-llm-d-request-dropped-reason"


class CallFailed(Exception):
    """The call ended with another status than OK."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code


@dataclass(slots=True, kw_only=True)
class Trial:
    """What a picker answered to a request."""

    destination: str | None = None
    """In the header."""
    metadata: str | None = None
    """The destination in the dynamic metadata."""
    body: bytearray = field(default_factory=bytearray)
    has_ended: bool = False
    """Whether all of the body came back."""
    status: int | None = None
    """Of an answer that ends the request."""
    details: str = ""
    reason: str = ""


class GatewayCall:
    """A connection to a picker."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def health(self) -> str:
        """The name of the status that Envoy's health check is told; raises `CallFailed`."""
        check = self._channel.unary_unary(
            _HEALTH,
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        request = health_pb2.HealthCheckRequest(service=EXT_PROC_SERVICE)
        try:
            answer = await check(request)
        except grpc.aio.AioRpcError as error:
            raise _failed(error) from error
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

    async def trial(self, model: str) -> tuple[Trial, bytes]:
        """The answer to a completion request, and the body that was sent.

        The call is cancelled then, as by a gateway whose client has left: there is no model server
        that gets anything. Raises `CallFailed`.
        """
        method = self._channel.stream_stream(
            METHOD,
            wire.ProcessingRequest.SerializeToString,
            wire.ProcessingResponse.FromString,
        )
        content = {"model": model, "prompt": "epp doctor", "max_tokens": 1}
        body = msgspec.json.encode(content)
        call = method()
        trial = Trial()
        try:
            with suppress(asyncio.InvalidStateError):  # it has ended: what it says is still read
                await call.write(_headers(len(body)))
                await call.write(_body(body))
            while not _take(trial, await call.read()):
                pass
        except grpc.aio.AioRpcError as error:
            raise _failed(error) from error
        finally:
            call.cancel()
        return trial, body


@asynccontextmanager
async def gateway_call(look: PortLook) -> AsyncIterator[GatewayCall]:
    """A connection to the port, over TLS if it speaks that."""
    tls = unverified_tls() if look.speaks is Speaks.TLS else None
    async with _Relay(look.address, tls) as relay, _channel(relay.address, look) as call:
        yield call


@asynccontextmanager
async def _channel(target: HostPort, look: PortLook) -> AsyncIterator[GatewayCall]:
    options = [
        ("grpc.max_receive_message_length", _NO_LIMIT),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.default_authority", look.address.host),
        ("grpc.enable_http_proxy", 0),
    ]
    async with grpc.aio.insecure_channel(str(target), options=options) as channel:
        yield GatewayCall(channel)


class _Relay:
    """A port of this machine for the while, whose connections lead to the picker.

    grpcio can't be told to take any certificate, as gateways do, and looks names up in a way of
    its own.
    """

    def __init__(self, target: HostPort, tls: ssl.SSLContext | None) -> None:
        self._target = target
        self._tls = tls
        self._server: asyncio.Server | None = None
        self.address = HostPort("127.0.0.1", 0)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self.address.host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        self.address = HostPort(self.address.host, port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target, ssl=self._tls)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, far_writer))
                group.create_task(_pass_on(far_reader, writer))
        except (OSError, ExceptionGroup):
            pass
        finally:
            writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()


def _headers(length: int) -> wire.ProcessingRequest:
    values = {
        ":method": "POST",
        ":path": "/v1/completions",
        ":scheme": "http",
        ":authority": "epp-doctor",
        "content-type": "application/json",
        "content-length": str(length),
        "x-request-id": "epp-doctor",
    }
    headers = [wire.HeaderValue(key=key, raw_value=text.encode()) for key, text in values.items()]
    full_duplex = wire.ProtocolConfiguration.FULL_DUPLEX_STREAMED
    return wire.ProcessingRequest(
        request_headers=wire.HttpHeaders(headers=wire.HeaderMap(headers=headers)),
        protocol_config=wire.ProtocolConfiguration(
            request_body_mode=full_duplex, response_body_mode=full_duplex
        ),
    )


def _body(body: bytes) -> wire.ProcessingRequest:
    return wire.ProcessingRequest(request_body=wire.HttpBody(body=body, end_of_stream=True))


def _take(trial: Trial, answer: object) -> bool:
    """Note what the answer says; whether it is the last one."""
    if not isinstance(answer, wire.ProcessingResponse):
        return True  # the end of the stream
    kind = answer.WhichOneof("response")
    namespaces = answer.dynamic_metadata.fields
    if DESTINATION_NAMESPACE in namespaces:
        fields = namespaces[DESTINATION_NAMESPACE].struct_value.fields
        if DESTINATION_HEADER in fields:
            trial.metadata = fields[DESTINATION_HEADER].string_value
    if kind == "immediate_response":
        immediate = answer.immediate_response
        trial.status, trial.details = immediate.status.code, immediate.details
        trial.reason = _header(immediate.headers, _REJECTION_REASON) or ""
        return True
    if kind == "request_headers":
        mutation = answer.request_headers.response.header_mutation
        trial.destination = _header(mutation, DESTINATION_HEADER)
    elif kind == "request_body":
        streamed = answer.request_body.response.body_mutation.streamed_response
        trial.body += streamed.body
        trial.has_ended = streamed.end_of_stream
    return trial.has_ended


def _header(mutation: wire.HeaderMutation, name: str) -> str | None:
    for option in mutation.set_headers:
        if option.header.key == name:
            return (option.header.raw_value or option.header.value).decode("utf-8", "replace")
    return None


def _failed(error: grpc.aio.AioRpcError) -> CallFailed:
    return CallFailed(error.code().name, error.details() or "")
