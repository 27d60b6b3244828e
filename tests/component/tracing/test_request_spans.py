"""What is told of a request that a gateway sent: as a tree, with the reference's names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from epp.app.request_path import RequestPathSettings
from epp.datastore.inference_pool import FailureMode
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Filter
from epp.gateway.context import GatewaySettings
from epp.request_control.director_settings import DirectorSettings
from epp.tracing.trace_context import TraceParent, read_traceparent
from epp.tracing.tracer import Tracer
from tests.fakes.eventually import eventually
from tests.fakes.pickers.gateway_client import Answer, Exchange
from tests.fakes.pickers.picker import Picker, running_picker
from tests.fakes.tracing import SpanRecords

ONE, TWO, THREE = "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"
BODY = b'{"model":"m","prompt":"a secret"}'
SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = SAMPLED[:-1] + "0"
ANSWER = b'{"model":"m","usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}'
JSON = {":status": "200", "content-type": "application/json"}

TWO_SCORERS = """
plugins:
- {type: queue-scorer, name: by-queue}
- {type: kv-cache-utilization-scorer}
- {type: max-score-picker}
schedulingProfiles:
- name: best
  plugins:
  - {pluginRef: by-queue, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer}
  - {pluginRef: max-score-picker}
"""
STAGES = """
plugins:
- {type: always-disagg-pd-decider}
- type: disagg-profile-handler
  parameters: {deciders: {prefill: always-disagg-pd-decider}}
- {type: prefill-filter}
- {type: decode-filter}
- {type: queue-scorer}
schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer}]
- name: decode
  plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}]
"""
FILTERED = """
plugins: [{type: odd-filter}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: odd-filter}]}]
"""
ROLES = {ONE: {"llm-d.ai/role": "prefill"}, TWO: {"llm-d.ai/role": "decode"}}


class NobodyFilter(Filter):
    type = "odd-filter"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        return []


class CallingFilter(NobodyFilter):
    """Would call another service, and tell it of which trace that is."""

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        request.headers.set("x-seen", request.headers.get("traceparent") or "")
        return list(endpoints)


class BrokenFilter(NobodyFilter):
    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        raise RuntimeError("a secret")


@asynccontextmanager
async def traced(
    addresses: Sequence[str] = (ONE,), ratio: float = 1.0, **others: Any
) -> AsyncIterator[tuple[Picker, SpanRecords]]:
    sink = SpanRecords()
    async with running_picker(addresses, tracer=Tracer(sink, ratio), **others) as picker:
        yield picker, sink


async def ask(exchange: Exchange, headers: dict[str, str] | None = None) -> Answer:
    """Send a request and read what it is answered up to the decision."""
    await exchange.post(BODY, headers)
    return await exchange.answer()


async def served(
    picker: Picker, headers: dict[str, str] | None = None, status: str = "200"
) -> Answer:
    """A request up to the end of its response."""
    exchange = picker.exchange()
    answer = await ask(exchange, headers)
    await exchange.answer()
    await exchange.response_headers({**JSON, ":status": status})
    await exchange.response_body(ANSWER, end=True)
    await exchange.answers(2)
    await exchange.half_close()
    await picker.settled()
    return answer


def upstream(answer: Answer) -> TraceParent | None:
    """The trace that the model server is told to join."""
    return read_traceparent(answer.set_headers["traceparent"])


async def test_a_request_is_told_as_the_reference_tells_it() -> None:
    async with traced((ONE, TWO, THREE), config=TWO_SCORERS) as (picker, sink):
        picker.report(ONE, waiting=0, kv=0.5)
        picker.report(TWO, waiting=10, kv=0.5)
        picker.report(THREE, waiting=5, kv=0.0)
        await served(picker, {"x-request-id": "r-1"})

    told = sink.only
    assert told.tree == [
        "gateway.request",
        ".gateway.request_orchestration",
        "..run_scheduler_profile",
        "...filter_endpoints",
        "...llm_d.epp.scoring",
        "....llm_d.epp.scorer.queue-scorer",
        "....llm_d.epp.scorer.kv-cache-utilization-scorer",
        "...pick_endpoints",
    ]
    request = {"gen_ai.request.model": "m", "gen_ai.request.id": "r-1"}
    assert told.attributes("gateway.request") == request | {
        "epp.endpoint": ONE,
        "epp.termination_cause": "natural",
        "http.response.status_code": 200,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
    }
    assert told.attributes("gateway.request_orchestration") == {
        "target_model": "m",
        "request_prio": 0,
    }
    assert told.attributes("run_scheduler_profile") == {"llm_d.epp.scheduling.profile.name": "best"}
    assert told.attributes("filter_endpoints") == request | {
        "llm_d.epp.filter.candidate_endpoints": 3,
        "llm_d.epp.filter.filtered_endpoints": 3,
    }
    assert told.attributes("llm_d.epp.scoring") == request | {
        "llm_d.epp.scorer.count": 2,
        "llm_d.epp.scoring.candidate_endpoints": 3,
    }
    assert told.attributes("llm_d.epp.scorer.queue-scorer") == {
        "llm_d.epp.scorer.type": "queue-scorer",
        "llm_d.epp.scorer.name": "by-queue",
        "llm_d.epp.scorer.weight": 2.0,
        "llm_d.epp.scorer.candidate_endpoints": 3,
        "llm_d.epp.scorer.score.max": 1.0,
        "llm_d.epp.scorer.score.avg": 0.5,
        "llm_d.epp.scorer.endpoints_scored": 3,
    }
    assert told.attributes("pick_endpoints") == request | {
        "llm_d.epp.picker.candidate_endpoints": 3,
        "llm_d.epp.picker.top_endpoints": ["default/pod-0", "default/pod-2", "default/pod-1"],
        "llm_d.epp.picker.top_scores": [2.5, 2.0, 0.5],
    }
    servers = {span.name for span in told.spans if span.is_server}
    assert servers == {"gateway.request", "gateway.request_orchestration"}
    assert [span.error for span in told.spans] == [None] * len(told.spans)


async def test_a_span_lies_within_the_one_above() -> None:
    async with traced((ONE, TWO), config=STAGES, labels=ROLES) as (picker, sink):
        await served(picker)

    spans = {span.span_id: span for span in sink.only.spans}
    for span in spans.values():
        above = spans.get(span.parent_id or 0, span)
        assert above.started_at <= span.started_at <= span.ended_at <= above.ended_at, span.name


async def test_stages_are_told_with_what_was_decided() -> None:
    async with traced((ONE, TWO), config=STAGES, labels=ROLES) as (picker, sink):
        await served(picker)

    told = sink.only
    assert [name for name in told.tree if not name.startswith("...")] == [
        "gateway.request",
        ".gateway.request_orchestration",
        "..pick_disagg_profile",
        "..run_scheduler_profile",
        "..pick_disagg_profile",
        "..run_scheduler_profile",
        "..pick_disagg_profile",
        "..prepare_disaggregation",
    ]
    picks = [span.attributes for span in told.spans if span.name == "pick_disagg_profile"]
    assert [each["llm_d.epp.profile_handler.decision"] for each in picks] == [
        "run_decode",
        "run_prefill",
        "complete_prefill-decode",
    ]
    prepared = told.attributes("prepare_disaggregation")
    assert {name: value for name, value in prepared.items() if name.startswith("llm_d")} == {
        "llm_d.epp.pd.disaggregation_used": True,
        "llm_d.epp.pd.prefill_pod_address": "10.0.0.1",
        "llm_d.epp.pd.prefill_pod_port": "8000",
        "llm_d.epp.encode.disaggregation_used": False,
        "llm_d.epp.encode.reason": "no_encode_profile_result",
    }


async def test_the_model_server_is_below_gateway_request_which_is_below_the_caller() -> None:
    async with traced(ratio=0.0) as (picker, sink):
        answer = await served(picker, {"traceparent": SAMPLED, "tracestate": "a=1"})

    told, caller = sink.only, read_traceparent(SAMPLED.encode())
    assert caller is not None
    assert (told.trace_id, told.remote_parent) == (caller.trace_id, caller.span_id)
    assert upstream(answer) == TraceParent(told.trace_id, told.root.span_id, True)
    assert "tracestate" not in answer.set_headers
    assert "tracestate" not in answer.remove_headers


async def test_a_plugin_that_calls_others_sees_the_trace_that_they_are_to_join() -> None:
    async with traced(config=FILTERED, own_plugins=[CallingFilter]) as (picker, _):
        answer = await served(picker, {"traceparent": SAMPLED})

    assert answer.set_headers["x-seen"] == answer.set_headers["traceparent"] != SAMPLED.encode()


async def test_of_a_caller_that_is_not_sampled_nothing_is_told_or_changed() -> None:
    async with traced(ratio=1.0) as (picker, sink):
        answer = await served(picker, {"traceparent": NOT_SAMPLED})

    assert sink.all == []
    assert "traceparent" not in answer.set_headers


async def test_of_a_request_that_is_not_chosen_the_model_server_is_told_so() -> None:
    async with traced(ratio=0.0) as (picker, sink):
        answer = await served(picker)

    assert sink.all == []
    parent = upstream(answer)
    assert parent is not None
    assert not parent.sampled


async def test_without_a_tracer_no_header_is_touched() -> None:
    async with running_picker() as picker:
        answer = await served(picker, {"traceparent": "nonsense"})

    assert "traceparent" not in answer.set_headers
    assert "traceparent" not in answer.remove_headers


async def test_the_request_log_has_the_trace_of_requests_that_are_traced() -> None:
    async with traced() as (picker, sink):
        await served(picker)
        await served(picker, {"traceparent": NOT_SAMPLED})

    assert [record.trace_id for record in picker.records.all] == [f"{sink.only.trace_id:032x}", ""]


async def test_a_rejection_is_an_error_with_its_status() -> None:
    async with traced(()) as (picker, sink):
        assert (await ask(picker.exchange())).kind == "immediate_response"

    told = sink.only
    assert told.tree == ["gateway.request", ".gateway.request_orchestration"]
    assert told.root.attributes["http.response.status_code"] == 503
    assert told.root.attributes["error.type"] == "epp_rejected_no_endpoints"
    assert told.root.error
    assert told.named("gateway.request_orchestration").error == told.root.error
    assert picker.records.all[0].trace_id == f"{told.trace_id:032x}"


async def test_a_profile_that_picks_nothing_is_told_as_far_as_it_came() -> None:
    async with traced(config=FILTERED, own_plugins=[NobodyFilter]) as (picker, sink):
        await ask(picker.exchange())

    told = sink.only
    assert told.tree[1:] == [
        ".gateway.request_orchestration",
        "..run_scheduler_profile",
        "...filter_endpoints",
    ]
    assert told.attributes("filter_endpoints")["llm_d.epp.filter.candidate_endpoints"] == 1
    assert told.attributes("filter_endpoints")["llm_d.epp.filter.filtered_endpoints"] == 0
    assert told.root.attributes["http.response.status_code"] == 429


async def test_a_body_over_the_cap_is_an_error_before_anything_was_decided() -> None:
    settings = RequestPathSettings(gateway=GatewaySettings(max_request_body_bytes=8))
    async with traced(settings=settings) as (picker, sink):
        await ask(picker.exchange())

    assert sink.only.tree == ["gateway.request"]
    assert sink.only.root.attributes["http.response.status_code"] == 413


async def test_a_picker_that_fails_open_says_so_and_quotes_nothing() -> None:
    async with traced(
        config=FILTERED, own_plugins=[BrokenFilter], failure_mode=FailureMode.FAIL_OPEN
    ) as (picker, sink):
        answer = await served(picker)

    told = sink.only
    assert told.root.attributes["epp.note"] == "fail open (internal)"
    assert told.root.attributes["epp.endpoint"] == ONE
    assert told.root.error is None
    assert upstream(answer) == TraceParent(told.trace_id, told.root.span_id, True)
    assert "secret" not in repr(told.spans)


async def test_an_answer_of_a_model_server_that_failed_is_an_error() -> None:
    async with traced() as (picker, sink):
        await served(picker, status="502")

    root = sink.only.root
    assert root.attributes["http.response.status_code"] == 502
    assert root.error == "the model server answered 502"


async def test_a_client_that_goes_away_is_told_without_an_error() -> None:
    async with traced() as (picker, sink):
        exchange = picker.exchange()
        await ask(exchange)
        exchange.cancel()
        await picker.settled()

    assert sink.only.root.attributes["epp.termination_cause"] == "client-disconnect"
    assert sink.only.root.error is None


async def test_a_request_that_is_never_completed_is_told_once() -> None:
    async with traced() as (picker, sink):
        exchange = picker.exchange()
        await exchange.request_headers()
        await eventually(lambda: bool(picker.path.guard.streams))
        exchange.cancel()
        await picker.settled()

    assert sink.only.root.attributes == {"epp.note": "over before it was answered"}


async def test_a_response_that_overtakes_its_request_ends_the_trace() -> None:
    async with traced() as (picker, sink):
        exchange = picker.exchange()
        await exchange.request_headers()
        await exchange.response_headers(JSON, end=True)
        await exchange.answer()
        exchange.cancel()
        await picker.settled()

    assert sink.only.root.attributes == {"epp.note": "over before it was answered"}


async def test_a_request_that_takes_too_long_is_an_error() -> None:
    settings = RequestPathSettings(director=DirectorSettings(decision_timeout=-1.0))
    async with traced(settings=settings) as (picker, sink):
        await ask(picker.exchange())

    assert sink.only.root.attributes["error.type"] == "epp_deadline"


@pytest.mark.parametrize(
    "model", ["m" * 5000, "a\nb", "\\ud800"], ids=["long", "lines", "surrogate"]
)
async def test_names_that_clients_choose_are_short_and_on_one_line(model: str) -> None:
    async with traced() as (picker, sink):
        exchange = picker.exchange()
        body = b'{"model":"%s","prompt":"a"}' % model.replace("\n", "\\n").encode()
        await exchange.post(body, {"x-request-id": model})
        await exchange.answer()
        exchange.cancel()
        await picker.settled()

    for span in sink.only.spans:
        texts = [value for value in span.attributes.values() if isinstance(value, str)]
        assert all(len(text) <= 256 and text.isprintable() for text in texts)
