"""A client that speaks external processing as a gateway does, over a real gRPC channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import grpc

from epp.gateway.service import METHOD
from epp.wire import ext_proc_pb2 as wire

ANSWER_TIMEOUT = 10.0
COMPLETIONS = {":method": "POST", ":path": "/v1/completions", "x-request-id": "t-1"}
END = "·"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One `ProcessingResponse`, read for comparison."""

    kind: str
    set_headers: Mapping[str, bytes] = field(default_factory=dict)
    remove_headers: frozenset[str] = frozenset()
    body: bytes | None = None
    """Of a streamed answer or a replacement; None: no body mutation."""
    end: bool = False
    streamed: bool = False
    clear_route_cache: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    status: int | None = None
    details: str = ""
    grpc_status: int | None = None

    @property
    def destination(self) -> str | None:
        """The pick, which must be the same in header and metadata."""
        header = self.set_headers.get("x-gateway-destination-endpoint")
        lb = self.metadata.get("envoy.lb", {})
        in_metadata = lb.get("x-gateway-destination-endpoint")
        assert (header.decode() if header else None) == in_metadata
        return in_metadata if in_metadata is None else str(in_metadata)


def read_answer(data: bytes) -> Answer:
    message = wire.ProcessingResponse.FromString(data)
    kind = message.WhichOneof("response")
    assert kind is not None, "an answer without a part"
    part = getattr(message, kind)
    if kind == "immediate_response":
        return Answer(
            kind=kind,
            set_headers=_set(part.headers),
            body=part.body,
            status=part.status.code,
            details=part.details,
            grpc_status=part.grpc_status.status if part.HasField("grpc_status") else None,
        )
    if kind.endswith("trailers"):
        return Answer(
            kind=kind,
            set_headers=_set(part.header_mutation),
            metadata=_plain(message.dynamic_metadata),
        )
    common = part.response
    mutation = common.body_mutation.WhichOneof("mutation")
    streamed = mutation == "streamed_response"
    body: bytes | None = None
    if streamed:
        body = common.body_mutation.streamed_response.body
    elif mutation == "body":
        body = common.body_mutation.body
    elif mutation == "clear_body":
        body = b""
    return Answer(
        kind=kind,
        set_headers=_set(common.header_mutation),
        remove_headers=frozenset(common.header_mutation.remove_headers),
        body=body,
        end=streamed and common.body_mutation.streamed_response.end_of_stream,
        streamed=streamed,
        clear_route_cache=common.clear_route_cache,
        metadata=_plain(message.dynamic_metadata),
    )


def _set(mutation: wire.HeaderMutation) -> dict[str, bytes]:
    for option in mutation.set_headers:
        assert option.append_action == wire.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
        assert not option.header.value, "values go into raw_value"
    names = [option.header.key for option in mutation.set_headers]
    assert len(set(names)) == len(names), "a header is set twice"
    return {option.header.key: option.header.raw_value for option in mutation.set_headers}


def _plain(struct: Any) -> dict[str, Any]:
    def value(item: Any) -> Any:
        kind = item.WhichOneof("kind")
        return _plain(item.struct_value) if kind == "struct_value" else getattr(item, kind)

    return {key: value(item) for key, item in struct.fields.items()}


def processing_request(kind: str, **parts: Any) -> wire.ProcessingRequest:
    """A message with one part."""
    message = wire.ProcessingRequest()
    part = getattr(message, kind)
    part.SetInParent()
    for name, value in parts.items():
        if isinstance(value, wire.HeaderMap):
            getattr(part, name).CopyFrom(value)
        else:
            setattr(part, name, value)
    return message


def body_modes(request: str, response: str) -> wire.ProtocolConfiguration:
    """A `protocol_config` by the names of its modes."""
    return wire.ProtocolConfiguration(request_body_mode=request, response_body_mode=response)


class Exchange:
    """One `Process` stream."""

    def __init__(self, call: Any, first: wire.ProcessingRequest) -> None:
        self._call = call
        self._first: wire.ProcessingRequest | None = first

    async def send(self, kind: str, **parts: Any) -> None:
        """Send one message; `metadata` and `attributes` are namespaces of plain values."""
        metadata = parts.pop("metadata", None)
        attributes = parts.pop("attributes", None)
        message = processing_request(kind, **parts)
        if metadata is not None:
            for namespace, values in metadata.items():
                message.metadata_context.filter_metadata[namespace].update(values)
        for namespace, values in (attributes or {}).items():
            message.attributes[namespace].update(values)
        if self._first is not None:
            message.MergeFrom(self._first)
            self._first = None
        await self.send_bytes(message.SerializeToString())

    async def send_bytes(self, data: bytes) -> None:
        await self._call.write(data)

    async def request_headers(
        self,
        headers: Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes]] = COMPLETIONS,
        *,
        end: bool = False,
        metadata: Any = None,
    ) -> None:
        await self.send(
            "request_headers",
            headers=header_map(headers),
            end_of_stream=end,
            metadata=metadata,
        )

    async def request_body(self, body: bytes, *, end: bool = False, metadata: Any = None) -> None:
        await self.send("request_body", body=body, end_of_stream=end, metadata=metadata)

    async def request_trailers(self) -> None:
        await self.send("request_trailers")

    async def response_headers(
        self,
        headers: Mapping[str, str | bytes],
        *,
        end: bool = False,
        metadata: Any = None,
        attributes: Any = None,
    ) -> None:
        await self.send(
            "response_headers",
            headers=header_map(headers),
            end_of_stream=end,
            metadata=metadata,
            attributes=attributes,
        )

    async def response_body(self, body: bytes, *, end: bool = False) -> None:
        await self.send("response_body", body=body, end_of_stream=end)

    async def response_trailers(self) -> None:
        await self.send("response_trailers")

    async def post(
        self, body: bytes, headers: Mapping[str, str | bytes] | None = None, metadata: Any = None
    ) -> None:
        """A request with its body in one piece."""
        await self.request_headers({**COMPLETIONS, **(headers or {})})
        await self.request_body(body, end=True, metadata=metadata)

    async def answer(self) -> Answer:
        """The next answer; fails when the stream ends instead."""
        async with asyncio.timeout(ANSWER_TIMEOUT):
            data = await self._call.read()
        assert data is not grpc.aio.EOF, f"the stream ended with {await self._call.code()}"
        return read_answer(data)

    async def answers(self, count: int) -> list[Answer]:
        return [await self.answer() for _ in range(count)]

    async def picked(self) -> str:
        """Read the answers up to the request body's last one; gives the destination."""
        first = await self.answer()
        assert first.kind == "request_headers", first
        assert first.destination is not None
        while not (await self.answer()).end:
            pass
        return first.destination

    async def half_close(self) -> None:
        await self._call.done_writing()

    async def status(self) -> grpc.StatusCode:
        """Status of the stream, which must have ended without another answer."""
        async with asyncio.timeout(ANSWER_TIMEOUT):
            with suppress(grpc.aio.AioRpcError):
                data = await self._call.read()
                assert data is grpc.aio.EOF, read_answer(data)
            code: grpc.StatusCode = await self._call.code()
        return code

    async def status_message(self) -> str:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            return str(await self._call.details())

    async def silent(self) -> None:
        """Nothing is owed: prove it by asking for something that is answered at once.

        Only before the response phase; the message used is `response_headers`.
        """
        await self.response_headers({":status": "200"})
        answer = await self.answer()
        assert answer.kind == "response_headers", answer

    def cancel(self) -> None:
        self._call.cancel()


def header_map(
    headers: Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes]],
) -> wire.HeaderMap:
    items = headers.items() if isinstance(headers, Mapping) else headers
    return wire.HeaderMap(
        headers=[
            wire.HeaderValue(
                key=name, raw_value=value.encode() if isinstance(value, str) else value
            )
            for name, value in items
        ]
    )


class GatewayClient:
    """Opens streams to an Endpoint Picker."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            METHOD
        )

    def exchange(
        self,
        *,
        request_mode: str | None = "FULL_DUPLEX_STREAMED",
        response_mode: str = "FULL_DUPLEX_STREAMED",
        observability_mode: bool = False,
        grpc_metadata: Sequence[tuple[str, str]] = (),
    ) -> Exchange:
        """A new stream; without a mode there is no `protocol_config`."""
        first = wire.ProcessingRequest(observability_mode=observability_mode)
        if request_mode is not None:
            first.protocol_config.CopyFrom(body_modes(request_mode, response_mode))
            first.protocol_config.SetInParent()
        return Exchange(self._method(metadata=tuple(grpc_metadata)), first)


@asynccontextmanager
async def gateway_client(
    port: int, credentials: grpc.ChannelCredentials | None = None, *, host: str = "127.0.0.1"
) -> AsyncIterator[GatewayClient]:
    target = f"{host}:{port}"
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),  # a connection of its own
    ]
    if credentials is None:
        channel = grpc.aio.insecure_channel(target, options=options)
    else:
        channel = grpc.aio.secure_channel(target, credentials, options=options)
    async with channel:
        yield GatewayClient(channel)
