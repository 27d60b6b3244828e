"""A whole process whose spans go to a collector, or can't."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from structlog.testing import capture_logs
from structlog.typing import EventDict

from epp import __version__
from epp.app.listeners import BoundPorts
from epp.app.options import ServeOptions
from epp.tracing.http_session import http_session
from tests.fakes.collector import Collector, grpc_collector, http_collector, plain, served
from tests.fakes.eventually import eventually
from tests.fakes.pickers.applications import options_for_tests, running
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.pool_files import MANIFEST

POOL = MANIFEST + "endpoints: [{name: gpu, address: 10.0.0.1}]"
BODY = b'{"model":"m","prompt":"a secret"}'
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
EMPTY = MANIFEST + "endpoints: []"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request, and soon."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")


@pytest.fixture(params=["grpc", "http/protobuf"])
def collector(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Collector]:
    kinds: dict[str, Callable[[], AbstractContextManager[Collector]]] = {
        "grpc": grpc_collector,
        "http/protobuf": http_collector,
    }
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", request.param)
    with kinds[request.param]() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


@pytest.fixture
def options(tmp_path: Path) -> ServeOptions:
    return options_for_tests(pool_file=pool_file(tmp_path, POOL), request_log=False)


def pool_file(folder: Path, text: str) -> Path:
    path = folder / "pool.yaml"
    path.write_text(text)
    return path


def about(lines: list[EventDict], event: str) -> list[EventDict]:
    return [line for line in lines if line["event"] == event]


async def ask(ports: BoundPorts, traceparent: str = CALLER) -> None:
    """One request and its response, if it is not rejected."""
    async with gateway_client(ports.grpc) as client:
        exchange = client.exchange()
        await exchange.post(BODY, {"traceparent": traceparent, "x-request-id": "r-1"})
        if (await exchange.answer()).kind == "request_headers":
            await exchange.answer()
            await exchange.response_headers({":status": "200"}, end=True)
            await exchange.answer()
            await exchange.half_close()


async def test_a_collector_gets_the_tree_below_the_callers_span(
    collector: Collector, options: ServeOptions
) -> None:
    async with running(options) as (_, ports):
        await ask(ports)
        await eventually(lambda: len(collector.spans) == 6)

    spans = collector.spans
    assert {span.trace_id.hex() for span in spans} == {CALLER[3:35]}
    root = collector.named("gateway.request")
    orchestration = collector.named("gateway.request_orchestration")
    assert root.parent_span_id.hex() == CALLER[36:52]
    assert orchestration.parent_span_id == root.span_id
    assert root.kind == orchestration.kind == Span.SPAN_KIND_SERVER
    assert collector.named("pick_endpoints").kind == Span.SPAN_KIND_INTERNAL
    assert root.start_time_unix_nano <= orchestration.start_time_unix_nano
    assert orchestration.end_time_unix_nano <= root.end_time_unix_nano
    assert root.status.code == Status.STATUS_CODE_UNSET
    assert plain(root.attributes)["gen_ai.request.id"] == "r-1"
    assert plain(collector.named("pick_endpoints").attributes) == {
        "llm_d.epp.picker.candidate_endpoints": 1,
        "llm_d.epp.picker.top_endpoints": ["default/gpu-rank-0"],
        "llm_d.epp.picker.top_scores": [0.0],
        "gen_ai.request.model": "m",
        "gen_ai.request.id": "r-1",
    }
    assert not any(b"secret" in request.SerializeToString() for request in collector.requests)


async def test_spans_say_who_writes_them(collector: Collector, options: ServeOptions) -> None:
    async with running(options) as (_, ports):
        await ask(ports)
        await eventually(lambda: bool(collector.requests))

    assert collector.resource["service.name"] == "llm-d-epp"
    assert collector.resource["service.version"] == __version__
    assert collector.resource["telemetry.sdk.language"] == "python"


async def test_the_environment_says_who_writes_them(
    collector: Collector, options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "llm-d-router/epp")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=epp-0,nonsense")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a")

    async with running(options) as (_, ports):
        await ask(ports)
        await eventually(lambda: bool(collector.requests))

    assert collector.resource["service.name"] == "llm-d-router/epp"
    assert collector.resource["k8s.pod.name"] == "epp-0"
    assert collector.headers[0]["x-tenant"] == "a"


async def test_a_rejection_arrives_as_an_error(
    collector: Collector, options: ServeOptions, tmp_path: Path
) -> None:
    pool_file(tmp_path, EMPTY)

    async with running(options) as (_, ports):
        await ask(ports)
        await eventually(lambda: bool(collector.spans))

    root = collector.named("gateway.request")
    assert root.status.code == Status.STATUS_CODE_ERROR
    assert root.status.message
    assert plain(root.attributes)["http.response.status_code"] == 503


async def test_without_tracing_a_collector_is_left_alone(
    collector: Collector, options: ServeOptions
) -> None:
    with capture_logs() as lines:
        async with running(replace(options, tracing=False)) as (_, ports):
            await ask(ports)

    assert collector.requests == []
    assert about(lines, "requests are traced") == []


async def test_what_is_queued_at_the_end_is_sent(
    collector: Collector, options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")

    async with running(options) as (_, ports):
        await ask(ports)

    assert collector.named("gateway.request").trace_id.hex() == CALLER[3:35]
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("Otel")]


async def test_a_collector_that_refuses_is_told_of_once_until_it_takes_spans_again(
    collector: Collector, options: ServeOptions
) -> None:
    with capture_logs() as lines:
        async with running(options) as (_, ports):
            collector.is_broken = True
            for _ in range(3):
                await ask(ports)
                await eventually(lambda: bool(about(lines, "spans are not taken")))
            collector.is_broken = False
            await ask(ports)
            await eventually(lambda: bool(about(lines, "spans are taken again")))

    [refused] = about(lines, "spans are not taken")
    assert refused["collector"].startswith(collector.url)
    assert refused["log_level"] == "warning"
    assert refused["reason"]
    [taken] = about(lines, "spans are taken again")
    assert taken["lost"] >= 6


def test_an_answer_without_an_end_is_not_read_to_it() -> None:
    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(ConnectionError):
                while True:
                    self.wfile.write(bytes(65_536))

        def log_message(self, format: str, *args: object) -> None:
            pass

    told = pytest.raises(requests.ConnectionError, match="answers with more than 64 KiB")
    with served(Endless) as url, http_session() as session, told:
        session.post(url, timeout=30)


@pytest.mark.parametrize("chunked", [True, False])
def test_a_short_answer_is_read_whole_and_the_connection_used_again(chunked: bool) -> None:
    ports = []

    class Brief(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            ports.append(self.client_address[1])
            self.send_response(200)
            if chunked:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"2\r\nok\r\n0\r\n\r\n")
            else:
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with served(Brief) as url, http_session() as session:
        answers = [session.post(url, timeout=30).text for _ in range(3)]

    assert answers == ["ok"] * 3
    assert len(set(ports)) == 1


def test_an_answer_that_breaks_off_is_a_lost_connection() -> None:
    class Broken(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "9")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            pass

    told = pytest.raises(requests.ConnectionError)
    with served(Broken) as url, http_session() as session, told:
        session.post(url, timeout=30)
