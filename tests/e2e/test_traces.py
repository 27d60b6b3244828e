"""One trace through a real Envoy: client, picker and model server."""

from __future__ import annotations

import httpx
import pytest

from epp.tracing.trace_context import read_traceparent
from tests.fakes.collector import grpc_collector, plain
from tests.fakes.programs.processes import MODEL
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.scripted_server import ScriptedServer
from tests.fakes.programs.stack import MakeStack

pytestmark = pytest.mark.e2e

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "a secret"}]}


def test_a_model_server_is_below_the_picker_which_is_below_the_client(
    make_stack: MakeStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with grpc_collector() as collector, ScriptedServer() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        stack = make_stack(servers=[server.address], fail_open=False)
        url = f"{stack.url}/v1/chat/completions"

        httpx.post(url, json=CHAT, headers={"traceparent": CALLER, "tracestate": "a=1"})
        httpx.post(url, json=CHAT)
        wait_until(lambda: bool(collector.spans), "spans")

    traced, untraced = (request.headers for request in server.received)
    root = collector.named("gateway.request")
    assert root.trace_id.hex() == CALLER[3:35]
    assert root.parent_span_id.hex() == CALLER[36:52]
    assert plain(root.attributes)["http.response.status_code"] == 200
    assert traced["traceparent"] == f"00-{CALLER[3:35]}-{root.span_id.hex()}-01"
    assert traced["tracestate"] == "a=1"
    parent = read_traceparent(untraced["traceparent"].encode())
    assert parent is not None
    assert not parent.sampled
