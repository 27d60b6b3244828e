"""Plugins for picks without a gateway: what they are shown, and what they do."""

from __future__ import annotations

from collections.abc import Sequence

from epp.framework import (
    DataProducer,
    Endpoint,
    EndpointListener,
    InferenceRequest,
    InferenceResponse,
    PreRequest,
    Rejection,
    RequestHeader,
    ResponseBody,
    ResponseHeader,
    ResponseProgress,
    SchedulingResult,
)
from epp.framework.errors import ErrorCode

PLUGINS = "plugins: [{type: queue-scorer}, {type: under-test}]"


class Diary(PreRequest, ResponseHeader, ResponseProgress, ResponseBody, EndpointListener):
    """Keeps what it is told, and sets a header each way."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def endpoint_added(self, endpoint: Endpoint) -> None:
        self.lines.append(f"added {endpoint} {dict(endpoint.labels)}")

    def endpoint_replaced(self, endpoint: Endpoint) -> None:
        self.lines.append(f"replaced {endpoint} {dict(endpoint.labels)}")

    def endpoint_removed(self, endpoint: Endpoint) -> None:
        self.lines.append(f"removed {endpoint}")

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        self.lines.append(f"picked {result.endpoints[0]} for {request.target_model}")
        request.headers.set("x-seen", "yes")
        request.headers.remove("x-secret")

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        self.lines.append(f"responded {response.status} {response.headers.get('content-type')}")
        response.headers.set("x-session", "s1")

    def first_chunk(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.lines.append("first token")

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.lines.append(f"ended {response.status} {response.termination_cause}")

    def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        tokens = response.usage.completion_tokens if response.usage else None
        self.lines.append(f"complete {response.ended}, {tokens} tokens")

    def dump_state(self) -> list[str]:
        return self.lines


class Doorkeeper(RequestHeader):
    """Turns everybody away."""

    def request_header(self, request: InferenceRequest) -> None:
        raise Rejection(ErrorCode.UNAUTHORIZED, "who are you?")


class WaitingProducer(DataProducer):
    """Waits."""

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        raise NotImplementedError


class ThreadedProducer(DataProducer):
    """Computes elsewhere."""

    runs_in_thread = True

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        raise NotImplementedError


class WaitingHook(ResponseBody):
    """Waits for responses."""

    async def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        raise NotImplementedError
