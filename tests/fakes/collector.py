"""OpenTelemetry collectors that keep what they are sent, over gRPC and over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.fakes.programs.scripted_server import POLL_SECONDS

SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"


class Collector:
    """What arrived, and whether more is taken."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[Mapping[str, str]] = []
        self.is_broken = False

    def take(self, request: ExportTraceServiceRequest, headers: Mapping[str, str]) -> None:
        self.headers.append(headers)
        self.requests.append(request)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> Span:
        """The only span of a name."""
        [span] = [span for span in self.spans if span.name == name]
        return span

    @property
    def resource(self) -> dict[str, Any]:
        """Who wrote the first spans."""
        return plain(self.requests[0].resource_spans[0].resource.attributes)


def plain(attributes: Any) -> dict[str, Any]:
    """Attributes as Python data."""
    pairs: list[KeyValue] = list(attributes)
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, str(kind))


@contextmanager
def grpc_collector() -> Iterator[Collector]:
    """Takes spans over OTLP/gRPC until the block is left."""
    collector = Collector()

    def export(
        request: ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> ExportTraceServiceResponse:
        if collector.is_broken:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not today")
        collector.take(request, {name: str(value) for name, value in context.invocation_metadata()})
        return ExportTraceServiceResponse()

    handler = grpc.unary_unary_rpc_method_handler(
        export,
        request_deserializer=ExportTraceServiceRequest.FromString,
        response_serializer=ExportTraceServiceResponse.SerializeToString,
    )
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"Export": handler}),)
    )
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(0).wait()


@contextmanager
def http_collector() -> Iterator[Collector]:
    """Takes spans over OTLP/HTTP until the block is left."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if collector.is_broken or self.path != "/v1/traces":
                self.send_response(403)
            else:
                collector.take(ExportTraceServiceRequest.FromString(body), dict(self.headers))
                self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with served(Handler) as url:
        collector.url = url
        yield collector


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The URL where it answers until the block is left."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
