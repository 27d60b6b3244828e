"""Calls to a picker as a gateway makes them: health, and one request that is never sent on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import msgspec
from grpc_health.v1 import health_pb2

from epp.diagnosis.doctor_options import HostPort
from epp.diagnosis.port_look import PortLook, Speaks, unverified_tls
from epp.diagnosis.port_relay import PortRelay
from epp.gateway.health import EXT_PROC_SERVICE
from epp.gateway.messages import DESTINATION_HEADER, DESTINATION_NAMESPACE
from epp.gateway.service import METHOD
from epp.wire import ext_proc_pb2 as wire

_HEALTH = "/grpc.health.v1.Health/Check"
_NO_LIMIT = -1
_CALL_SECONDS = 4.0
_REJECTION_REASON = "x-llm-d-request-dropped-reason"


class CallFailed(Exception):
    """The call ended with another status than OK."""

    def __init__(self, code: str, message: str) -> None:
        # gRPC's own words for a code say the same again.
        is_new = message.replace(" ", "_").upper() not in ("", code)
        super().__init__(f"{code}: {message}" if is_new else code)
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
    """Of the rejection, in a header that pickers of one family have."""

    @property
    def why(self) -> str:
        """Details and reason, each once: those of this picker are made of the reason."""
        is_new = self.reason.replace("-", "_") not in self.details
        return " ".join(filter(None, (self.details, self.reason if is_new else "")))


class GatewayCall:
    """A connection to a picker.

    Calls block, in threads: grpc.aio forgets what was answered by a call that ends while it
    writes, as one does that is refused.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    async def health(self) -> str:
        """The name of the status that Envoy's health check is told; raises `CallFailed`."""
        return await asyncio.to_thread(self._health)

    async def trial(self, model: str) -> tuple[Trial, bytes]:
        """The answer to a completion request, and the body that was sent.

        The call is cancelled then, as by a gateway whose client has left: there is no model server
        that gets anything. Raises `CallFailed`.
        """
        content = {"model": model, "prompt": "epp doctor", "max_tokens": 1}
        body = msgspec.json.encode(content)
        return await asyncio.to_thread(self._trial, body), body

    def _health(self) -> str:
        check = self._channel.unary_unary(
            _HEALTH,
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        request = health_pb2.HealthCheckRequest(service=EXT_PROC_SERVICE)
        try:
            answer = check(request, timeout=_CALL_SECONDS)
        except grpc.RpcError as error:
            raise _failed(error) from error
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

    def _trial(self, body: bytes) -> Trial:
        method = self._channel.stream_stream(
            METHOD,
            wire.ProcessingRequest.SerializeToString,
            wire.ProcessingResponse.FromString,
        )
        trial, is_over = Trial(), threading.Event()

        def messages() -> Iterator[wire.ProcessingRequest]:
            yield _headers(len(body))
            yield _body(body)
            is_over.wait()  # Envoy does not half-close before the response

        call = method(messages(), timeout=_CALL_SECONDS)
        try:
            for answer in call:
                if _take(trial, answer):
                    break
        except grpc.RpcError as error:
            raise _failed(error) from error
        finally:
            is_over.set()
            call.cancel()
        return trial


@asynccontextmanager
async def gateway_call(look: PortLook) -> AsyncIterator[GatewayCall]:
    """A connection to the port, over TLS if it speaks that."""
    tls = unverified_tls() if look.speaks is Speaks.TLS else None
    async with PortRelay(look.address, tls) as relay, _channel(relay.address, look) as call:
        yield call


@asynccontextmanager
async def _channel(target: HostPort, look: PortLook) -> AsyncIterator[GatewayCall]:
    options = [
        ("grpc.max_receive_message_length", _NO_LIMIT),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.default_authority", look.address.host),
        ("grpc.enable_http_proxy", 0),
    ]
    channel = grpc.insecure_channel(str(target), options=options)
    try:
        yield GatewayCall(channel)
    finally:
        await asyncio.to_thread(channel.close)


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


def _take(trial: Trial, answer: wire.ProcessingResponse) -> bool:
    """Note what the answer says; whether it is the last one."""
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


def _failed(error: grpc.RpcError) -> CallFailed:
    # What calls raise is a call as well, which the type does not say.
    assert isinstance(error, grpc.Call)
    return CallFailed(error.code().name, error.details() or "")
