"""The value of every metric after known traffic, as a scraper of a running picker reads it.

Each scenario says above itself what the page shows when it is over; together they name everything
there is, and every twin is the sum of what it was replaced by in all of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from epp import __version__
from epp.admin.access import Access
from epp.admin.http_port import HttpPort
from epp.admin.metrics_guard import MetricsGuard
from epp.admin.metrics_pages import metrics_pages
from epp.app.request_path import RequestPathSettings
from epp.config.descriptions import describe
from epp.config.plugin_registry import PluginRegistry
from epp.datastore.inference_pool import FailureMode
from epp.framework.metric_specs import MetricSpec
from epp.framework.request_control import ResponseHeader
from epp.gateway.overload import OverloadLimits
from epp.kubernetes.access_reviews import KubeAccessReviews
from epp.observability.metric_catalogue import CATALOGUE
from epp.observability.metrics import Metrics
from tests.fakes.clock import Clock
from tests.fakes.collector import http_collector
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import inference_pool, pod, pod_status
from tests.fakes.metrics.pages import Expectation, Series, expectations, page_of, scraped
from tests.fakes.page_server import answer, page_server
from tests.fakes.pickers.applications import (
    TAKING_TURNS,
    get,
    kubeconfig_for,
    options_for_tests,
    picks,
    running,
)
from tests.fakes.pickers.gateway_client import Exchange, gateway_client
from tests.fakes.pickers.picker import Picker, running_picker
from tests.fakes.plugins.failing import ONE, OWN, TWO
from tests.fakes.pool_files import MANIFEST
from tests.fakes.transport.raw_http import said_to

SHORT = {
    "R": 'model_name="m",target_model_name="m",fairness_id="default-flow",priority="0"',
    "UNREAD": 'model_name="",target_model_name="",fairness_id="default-flow",priority="0"',
    "ONE": 'endpoint_name="pod-0",namespace="default",port="8000"',
    "NOBODY": 'endpoint_name="",namespace="",port=""',
    "PARSER": 'plugin_type="openai-parser",plugin_name="openai-parser"',
    "PREFIX": 'plugin_type="approx-prefix-cache-producer",'
    'plugin_name="approx-prefix-cache-producer"',
    "BROKEN": 'extension_point="Filter",plugin_type="broken-filter",plugin_name="broken-filter"',
    "SLOW": 'plugin_type="slow-scorer",plugin_name="slow-scorer"',
    "CORE": 'source_type="metrics-data-source",extractor_type="core-metrics-extractor"',
    "MM": 'plugin_type="mm-embeddings-cache-producer",plugin_name="mm-embeddings-cache-producer"',
    "ROLLOUT": 'plugin_type="disaggregatedset-rollout-screener",'
    'plugin_name="disaggregatedset-rollout-screener"',
    "DISAGG": 'plugin_type="disagg-profile-handler",plugin_name="disagg-profile-handler"',
    "PD": 'plugin_type="pd-profile-handler",plugin_name="pd-profile-handler"',
    "ONE_HELD": 'producer_name="inflight-load-producer",endpoint_name="pod-0",namespace="default"',
    "VERSION": __version__,
}
EXAMPLES = Path(__file__).parents[3] / "config/examples"
BODY = b'{"model":"m","prompt":"a"}'
JSON = {":status": "200", "content-type": "application/json"}
EVENTS = {":status": "200", "content-type": "text/event-stream"}
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 5,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 3},
}


@dataclass(frozen=True)
class Scenario:
    """Gives the port of the metrics once everything has happened."""

    run: Callable[[Path], AbstractAsyncContextManager[int]]
    expected: list[Expectation]


def scenario(text: str) -> Callable[[Callable[[Path], AsyncIterator[int]]], Scenario]:
    """What the page shows in the end."""
    return lambda run: Scenario(asynccontextmanager(run), expectations(text, **SHORT))


async def answered(exchange: Exchange, status: str = "200") -> None:
    """A response without a body, to the end of the stream."""
    await exchange.response_headers({":status": status}, end=True)
    await exchange.answer()
    await exchange.half_close()
    await exchange.status()


async def posted(
    picker: Picker, body: bytes = BODY, headers: Mapping[str, str] | None = None
) -> Exchange:
    exchange = picker.exchange()
    await exchange.post(body, headers)
    await exchange.picked()
    return exchange


async def refused(picker: Picker, body: bytes = BODY, metadata: Any = None) -> None:
    exchange = picker.exchange()
    await exchange.post(body, metadata=metadata)
    assert (await exchange.answer()).kind == "immediate_response"
    exchange.cancel()


@scenario("""
    llm_d_epp_request_total{<R>} 1
    llm_d_epp_request_size_bytes_sum{<R>} 26
    llm_d_epp_request_size_bytes_bucket{<R>,le="64"} 1
    llm_d_epp_response_size_bytes_sum{<R>} 169
    llm_d_epp_request_input_tokens_sum{<R>} 7
    llm_d_epp_request_output_tokens_sum{<R>} 5
    llm_d_epp_request_cached_tokens_sum{<R>} 3
    llm_d_epp_request_running{<R>} 0
    llm_d_epp_request_processing_duration_seconds_sum 0.2
    llm_d_epp_request_ttft_seconds_sum{<R>,streaming="true"} 0.5
    llm_d_epp_request_streaming_itl_seconds_sum{<R>} 1
    llm_d_epp_request_streaming_itl_seconds_count{<R>} 2
    llm_d_epp_request_streaming_itl_seconds_bucket{<R>,le="0.3"} 1
    llm_d_epp_request_streaming_tpot_seconds_sum{<R>} 0.25
    llm_d_epp_request_ntpot_seconds_sum{<R>} 0.3
    llm_d_epp_request_duration_seconds_sum{<R>} 1.5
    llm_d_epp_request_duration_seconds_bucket{<R>,le="1.25"} 0
    llm_d_epp_request_duration_seconds_bucket{<R>,le="1.5"} 1
    llm_d_epp_response_processing_duration_seconds_count 1
    llm_d_epp_scheduler_e2e_duration_seconds_sum 0.2
    llm_d_epp_scheduler_attempts_total{status="success",target_model_name="m",<ONE>} 1
    llm_d_epp_plugin_duration_seconds_sum{extension_point="Scorer",<SLOW>} 0.2
    llm_d_epp_plugin_duration_seconds_count{extension_point="RequestParsing",<PARSER>} 1
    llm_d_epp_plugin_duration_seconds_count{extension_point="ResponseParsing",<PARSER>} 1
    llm_d_epp_request_error_total{<R>,error_code="ModelServerError"} absent
    epp_responses_total{code_class="2xx"} 1
    epp_responses_total{code_class="5xx"} 0
    epp_request_terminations_total{cause="natural"} 1
    epp_request_terminations_total{cause="client-disconnect"} 0
    epp_requests_in_flight 0
    epp_gauge_underflows_total 0
""")
async def a_streamed_completion(_: Path) -> AsyncIterator[int]:
    clock = Clock()
    config = "plugins: [{type: slow-scorer}]"
    async with running_picker((ONE,), config=config, own_plugins=OWN, now=clock) as picker:
        exchange = await posted(picker)
        clock.now += 0.3
        await exchange.response_headers(EVENTS)
        await exchange.answer()
        usage = b"data: " + json.dumps({"usage": USAGE}).encode() + b"\n\ndata: [DONE]\n\n"
        for pause, piece in ((0.0, b'data: {"a":1}\n\n'), (0.25, b"data: {}\n\n"), (0.75, usage)):
            clock.now += pause
            await exchange.response_body(piece, end=piece is usage)
            await exchange.answer()
        await exchange.half_close()
        await exchange.status()
        await picker.settled()
        async with page_of(picker.metrics) as port:
            yield port


@scenario("""
    llm_d_epp_request_total{<R>} 1
    llm_d_epp_request_ttft_seconds_sum{<R>,streaming="false"} 0.5
    llm_d_epp_request_streaming_tpot_seconds_count{<R>} absent
    llm_d_epp_request_duration_seconds_sum{<R>} 0.75
    llm_d_epp_response_processing_duration_seconds_sum 0.75
    llm_d_epp_request_output_tokens_sum{<R>} 5
""")
async def a_completion_in_one_piece(_: Path) -> AsyncIterator[int]:
    clock = Clock()
    async with running_picker((ONE,), now=clock) as picker:
        exchange = await posted(picker)
        await exchange.response_headers(JSON)
        await exchange.answer()
        for seconds, piece in ((0.5, b'{"usage":'), (0.25, json.dumps(USAGE).encode() + b"}")):
            clock.now += seconds
            await exchange.response_body(piece, end=seconds == 0.25)
            await exchange.answer()
        await exchange.half_close()
        await exchange.status()
        async with page_of(picker.metrics) as port:
            yield port


@scenario("""
    llm_d_epp_request_running{<R>} 2
    llm_d_epp_request_total{<R>} 2
    epp_requests_in_flight 2
    llm_d_epp_extproc_streams_inflight 2
    epp_request_terminations_total{cause="natural"} 0
    llm_d_epp_request_duration_seconds_count{<R>} absent
""")
async def requests_under_way(_: Path) -> AsyncIterator[int]:
    async with running_picker((ONE,)) as picker, page_of(picker.metrics) as port:
        for _number in range(2):
            await posted(picker)
        yield port


@scenario("""
    llm_d_epp_extproc_streams_inflight 0
    llm_d_epp_extproc_streams_total{code="OK"} 3
    llm_d_epp_extproc_streams_total{code="Canceled"} 1
    llm_d_epp_extproc_stream_duration_seconds_count 4
    epp_request_terminations_total{cause="natural"} 3
    epp_request_terminations_total{cause="client-disconnect"} 1
    epp_responses_total{code_class="2xx"} 3
    llm_d_epp_request_running{<R>} 0
    epp_requests_in_flight 0
""")
async def streams_that_end_and_one_that_is_given_up(_: Path) -> AsyncIterator[int]:
    async with running_picker((ONE,)) as picker, page_of(picker.metrics) as port:
        for _number in range(2):
            await answered(await posted(picker))
        reset_when_over = await posted(picker)
        await reset_when_over.response_headers({":status": "200"}, end=True)
        await reset_when_over.answer()
        reset_when_over.cancel()
        (await posted(picker)).cancel()
        yield port


@scenario("""
    llm_d_epp_request_total{<R>} 7
    llm_d_epp_request_error_total{<R>,error_code="ModelServerError"} 6
    epp_responses_total{code_class="2xx"} 1
    epp_responses_total{code_class="4xx"} 1
    epp_responses_total{code_class="5xx"} 5
    epp_requests_rejected_total{code="503",reason="rejected-no-endpoints"} absent
    epp_endpoint_errors_total{<ONE>} 5
    epp_endpoint_ejections_total 1
    epp_ejected_endpoints 1
""")
async def model_servers_that_answer_with_errors(_: Path) -> AsyncIterator[int]:
    async with running_picker((ONE,)) as picker, page_of(picker.metrics) as port:
        for status in ("200", "404", "500", "502", "503", "500", "500"):
            await answered(await posted(picker), status)
        yield port


@scenario("""
    epp_requests_rejected_total{code="400",reason="bad_request"} 2
    epp_requests_rejected_total{code="503",reason="rejected-no-endpoints"} 1
    llm_d_epp_request_error_total{<UNREAD>,error_code="BadRequest"} 2
    llm_d_epp_request_error_total{<R>,error_code="ServiceUnavailable"} 1
    llm_d_epp_request_total{<R>} absent
    llm_d_epp_request_total{<UNREAD>} absent
    llm_d_epp_request_running{<R>} absent
    llm_d_epp_request_processing_duration_seconds_count 3
    llm_d_epp_scheduler_attempts_total{status="success",target_model_name="m",<ONE>} absent
    epp_requests_in_flight 0
""")
async def requests_that_are_rejected(_: Path) -> AsyncIterator[int]:
    async with running_picker((ONE,)) as picker, page_of(picker.metrics) as port:
        await refused(picker, b"no json")
        await refused(picker, b'{"model":7}')
        subset = {"envoy.lb.subset_hint": {"x-gateway-destination-endpoint-subset": "10.9.9.9:1"}}
        await refused(picker, metadata=subset)
        yield port


@scenario("""
    epp_requests_rejected_total{code="503",reason="internal"} 2
    llm_d_epp_scheduler_attempts_total{status="failure",target_model_name="m",<NOBODY>} 2
    epp_plugin_errors_total{<BROKEN>} 2
    llm_d_epp_request_error_total{<R>,error_code="ServiceUnavailable"} 2
""")
async def a_filter_that_fails(_: Path) -> AsyncIterator[int]:
    config = "plugins: [{type: queue-scorer}, {type: broken-filter}]"
    async with (
        running_picker((ONE,), config=config, own_plugins=OWN) as picker,
        page_of(picker.metrics) as port,
    ):
        for _number in range(2):
            await refused(picker)
        yield port


@scenario("""
    epp_fail_open_total{reason="internal"} 2
    llm_d_epp_request_total{<R>} 2
    epp_plugin_errors_total{<BROKEN>} 2
    epp_requests_rejected_total{code="503",reason="internal"} absent
""")
async def a_filter_that_fails_in_a_pool_that_fails_open(_: Path) -> AsyncIterator[int]:
    config = "plugins: [{type: queue-scorer}, {type: broken-filter}]"
    async with (
        running_picker(
            (ONE,), config=config, own_plugins=OWN, failure_mode=FailureMode.FAIL_OPEN
        ) as picker,
        page_of(picker.metrics) as port,
    ):
        for _number in range(2):
            await posted(picker)
        yield port


@scenario("""
    epp_plugins_switched_off_total{<SLOW>} 1
    llm_d_epp_plugin_duration_seconds_count{extension_point="Scorer",<SLOW>} 5
    llm_d_epp_plugin_duration_seconds_sum{extension_point="Scorer",<SLOW>} 1
""")
async def a_plugin_that_takes_too_long(_: Path) -> AsyncIterator[int]:
    config = "plugins: [{type: slow-scorer}]"
    async with (
        running_picker((ONE,), config=config, own_plugins=OWN, now=Clock()) as picker,
        page_of(picker.metrics) as port,
    ):
        for _number in range(7):
            await answered(await posted(picker))
        yield port


@scenario("""
    epp_overload_total{signal="streams",outcome="rejected"} 1
    epp_requests_rejected_total{code="503",reason="overloaded"} 1
    epp_requests_in_flight 2
""")
async def more_streams_than_allowed(_: Path) -> AsyncIterator[int]:
    settings = RequestPathSettings(overload=OverloadLimits(streams=2))
    async with (
        running_picker((ONE,), settings=settings) as picker,
        page_of(picker.metrics) as port,
    ):
        for _number in range(2):
            await posted(picker)
        exchange = picker.exchange()
        await exchange.request_headers()
        assert (await exchange.answer()).status == 503
        yield port


@scenario("""
    epp_extproc_ignored_messages_total{kind="request-body"} 1
    llm_d_epp_request_total{<R>} 1
""")
async def a_body_that_comes_twice(_: Path) -> AsyncIterator[int]:
    async with running_picker((ONE,)) as picker, page_of(picker.metrics) as port:
        exchange = await posted(picker)
        await exchange.request_body(BODY, end=True)
        await exchange.silent()
        yield port


@scenario("""
    epp_response_phase_errors_total 2
    epp_request_terminations_total{cause="natural"} 2
""")
async def responses_that_a_plugin_fails_on(_: Path) -> AsyncIterator[int]:
    config = "plugins: [{type: queue-scorer}, {type: failing-response}]"
    async with (
        running_picker((ONE,), config=config, own_plugins=(FailingResponse,)) as picker,
        page_of(picker.metrics) as port,
    ):
        for _number in range(2):
            await answered(await posted(picker))
        yield port


class FailingResponse(ResponseHeader):
    """Has a bug."""

    type = "failing-response"

    def response_header(self, request: object, response: object, endpoint: object) -> None:
        raise RuntimeError("bug")


class Ticking:
    """Each look at it takes 0.35 seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.35
        return self.now


@scenario("""
    epp_event_loop_lag_seconds 0.25
    epp_buffered_bytes 0
""")
async def an_event_loop_that_is_late(_: Path) -> AsyncIterator[int]:
    async with running_picker((ONE,), now=Ticking()) as picker, page_of(picker.metrics) as port:
        guard = asyncio.ensure_future(picker.path.guard.run())
        yield port
        guard.cancel()


@scenario("""
    epp_buffered_bytes 10000
    epp_requests_in_flight 0
""")
async def a_body_that_has_not_ended(_: Path) -> AsyncIterator[int]:
    async with running_picker((ONE,)) as picker, page_of(picker.metrics) as port:
        guard = asyncio.ensure_future(picker.path.guard.run())
        exchange = picker.exchange()
        await exchange.request_headers()
        await exchange.request_body(b"x" * 10_000)
        yield port
        guard.cancel()


@scenario("""
    llm_d_epp_info{commit="",build_ref="<VERSION>"} 1
    epp_ready 1
    epp_endpoints 2
    llm_d_epp_ready_endpoints{name="pool"} 2
    epp_asyncio_tasks >0
    epp_unmatched_pods 0
    epp_pool_reloads_total{outcome="success"} 2
    epp_pool_reloads_total{outcome="failure"} 1
    epp_pool_file_errors_total{kind="entry"} 1
    epp_pool_file_errors_total{kind="document"} 1
    epp_pool_file_up_to_date 0
    epp_config_reloads_total{outcome="success"} 1
    epp_config_reloads_total{outcome="failure"} 1
    epp_config_up_to_date 0
    epp_leader absent
""")
async def files_that_change_and_are_right_and_then_wrong(folder: Path) -> AsyncIterator[int]:
    pool, config = folder / "pool.yaml", folder / "config.yaml"
    pool.write_text(f"{MANIFEST}endpoints: [{{name: a, address: 10.0.0.1}}]")
    config.write_text(TAKING_TURNS)
    options = options_for_tests(pool_file=pool, config_file=config)
    async with running(options) as (application, ports):
        pool.write_text(
            f"{MANIFEST}endpoints: [{{name: a, address: 10.0.0.1}},"
            "{name: b, address: 10.0.0.2}, {name: c, address: nowhere}]"
        )
        await eventually(lambda: len(application.snapshot().endpoints) == 2)
        pool.write_text("- ")
        config.write_text(TAKING_TURNS.replace("max-score", "random"))
        await scraped(ports.metrics, expectations('epp_config_reloads_total{outcome="success"} 1'))
        config.write_text("plugins: 7")
        yield ports.metrics


def vllm(waiting: int, running: int, kv_cache: str = "") -> bytes:
    return answer(
        f"vllm:num_requests_waiting {waiting}\nvllm:num_requests_running {running}\n"
        f"{kv_cache}\n".encode()
    )


@scenario("""
    llm_d_epp_average_queue_size{name="pool"} 3
    llm_d_epp_std_dev_queue_size{name="pool"} 2.83
    llm_d_epp_average_running_requests{name="pool"} 6.5
    llm_d_epp_std_dev_running_requests{name="pool"} 0.71
    llm_d_epp_average_kv_cache_utilization{name="pool"} 0.1
    llm_d_epp_std_dev_kv_cache_utilization{name="pool"} 0.14
    llm_d_epp_per_endpoint_queue_size{name="pool",model_server_endpoint="a"} 1
    llm_d_epp_per_endpoint_queue_size{name="pool",model_server_endpoint="b"} 5
    llm_d_epp_ready_endpoints{name="pool"} 2
    epp_endpoints 3
    epp_stale_endpoints 1
    llm_d_epp_datalayer_poll_errors_total{source_type="metrics-data-source"} >0
    llm_d_epp_datalayer_extract_errors_total{<CORE>} >0
    epp_scrape_duration_seconds_count{source_type="metrics-data-source"} >0
    epp_scrape_interval_seconds{source_type="metrics-data-source"} 0.05
""")
async def model_servers_that_are_scraped(folder: Path) -> AsyncIterator[int]:
    pool = folder / "pool.yaml"
    async with page_server() as a, page_server() as b, page_server() as dead:
        a.reply, b.reply = vllm(1, 6, "vllm:kv_cache_usage_perc 0.2"), vllm(5, 7)
        await dead.stop()
        pool.write_text(
            f"{MANIFEST}endpoints:\n"
            + "".join(
                f"- {{name: {name}, address: 127.0.0.1, port: {server.port}}}\n"
                for name, server in (("a", a), ("b", b), ("dead", dead))
            )
        )
        options = options_for_tests(
            pool_file=pool,
            config_text="plugins: [{type: queue-scorer}]",
            refresh_prometheus_metrics_interval=0.05,
            idle_metrics_interval=0.05,
        )
        async with running(options) as (_, ports):
            yield ports.metrics


@asynccontextmanager
async def fake_kube_api() -> AsyncIterator[FakeKubeApi]:
    api = FakeKubeApi()
    await api.start()
    try:
        yield api
    finally:
        await api.kill()


@scenario("""
    epp_leader 1
    epp_ready 1
    epp_unmatched_pods 1
    epp_endpoints 1
    epp_pool_problems_total{kind="invalid"} 1
    epp_pool_problems_total{kind="gone"} 0
    epp_informer_synced{resource="pods"} 1
    epp_informer_synced{resource="inferencepools"} 1
    epp_informer_last_contact_seconds{resource="pods"} >0
    epp_informer_relists_total{resource="pods",reason="first"} 1
    epp_informer_events_total{resource="pods",type="ADDED"} 2
    epp_informer_events_total{resource="inferencepools",type="MODIFIED"} 1
    epp_informer_watch_errors_total{resource="inferenceobjectives",kind="not-found"} >0
    epp_informer_repairs_total{resource="pods"} 0
""")
async def a_pool_of_a_cluster(folder: Path) -> AsyncIterator[int]:
    manifest = inference_pool(8000)
    async with fake_kube_api() as kube:
        await kube.create(manifest)
        await kube.create(pod("a"))
        await kube.patch(pod("a"), pod_status("10.0.0.1"), "/status")
        options = options_for_tests(
            pool_name="pool",
            pool_namespace="models",
            kubeconfig=kubeconfig_for(kube.url, folder),
            ha_enable_leader_election=True,
        )
        async with running(options) as (application, ports):
            await application.wait_synced()
            await kube.create(pod("b"))
            await kube.patch(manifest, {"spec": {"targetPorts": [{"number": 0}]}})
            yield ports.metrics


@scenario("""
    llm_d_epp_prefix_indexer_size{<PREFIX>} 3
    llm_d_epp_prefix_indexer_hit_ratio_count{<PREFIX>} 2
    llm_d_epp_prefix_indexer_hit_ratio_sum{<PREFIX>} 1
    llm_d_epp_prefix_indexer_hit_ratio_bucket{<PREFIX>,le="0"} 1
    llm_d_epp_prefix_indexer_hit_bytes_sum{<PREFIX>} 768
    epp_prefix_index_entries{<PREFIX>} 3
""")
async def a_prompt_that_comes_twice(_: Path) -> AsyncIterator[int]:
    body = json.dumps({"model": "m", "prompt": "x" * 768}).encode()
    config = "plugins: [{type: prefix-cache-scorer}]"
    async with running_picker((ONE,), config=config) as picker, page_of(picker.metrics) as port:
        for _number in range(2):
            await answered(await posted(picker, body))
        yield port


@scenario("""
    llm_d_epp_inflight_requests{<ONE_HELD>,fairness_id="default-flow",priority="0"} 2
    llm_d_epp_inflight_tokens{<ONE_HELD>,fairness_id="default-flow",priority="0"} >0
    llm_d_epp_inflight_requests{<ONE_HELD>,fairness_id="tenant",priority="0"} 1
""")
async def requests_that_a_producer_counts(_: Path) -> AsyncIterator[int]:
    config = "plugins: [{type: active-request-scorer}]"
    async with running_picker((ONE,), config=config) as picker, page_of(picker.metrics) as port:
        for headers in ({}, {}, {"x-gateway-inference-fairness-id": "tenant"}):
            await posted(picker, headers=headers)
        yield port


ROLES = dict(zip((ONE, TWO, "10.0.0.3:8000"), ("encode", "prefill", "decode"), strict=True))


@scenario("""
    llm_d_epp_encoder_cache_queries_total{<MM>,modality="image"} 2
    llm_d_epp_encoder_cache_hits_total{<MM>,modality="image",pod="default/pod-0"} 1
    llm_d_epp_encoder_cache_hit_ratio_count{<MM>} 6
    llm_d_epp_encoder_cache_hit_ratio_sum{<MM>} 2
    llm_d_epp_disagg_decision_total{<DISAGG>,model_name="m",decision_type="encode-decode"} 2
    llm_d_epp_disagg_decision_total{<DISAGG>,model_name="m",decision_type="decode-only"} 1
""")
async def an_image_that_comes_twice(_: Path) -> AsyncIterator[int]:
    config = (EXAMPLES / "encode-prefill-decode.yaml").read_text()
    labels = {address: {"llm-d.ai/role": role} for address, role in ROLES.items()}
    image = {"type": "image_url", "image_url": {"url": "http://images/train.png"}}
    chat = {"model": "m", "messages": [{"role": "user", "content": [image]}]}
    async with (
        running_picker(tuple(ROLES), config=config, labels=labels) as picker,
        page_of(picker.metrics) as port,
    ):
        for _number in range(2):
            body = json.dumps(chat).encode()
            await answered(await posted(picker, body, {":path": "/v1/chat/completions"}))
        await answered(await posted(picker))
        yield port


PD = """
plugins:
- type: pd-profile-handler
  parameters: {deciderPluginName: prefix-based-pd-decider}
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 100}}
- {type: prefill-filter}
- {type: decode-filter}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}]}
- {name: decode, plugins: [{pluginRef: decode-filter}]}
"""


@scenario("""
    llm_d_epp_pd_decision_total{<PD>,model_name="m",decision_type="prefill-decode"} 1
    llm_d_epp_pd_decision_total{<PD>,model_name="m",decision_type="decode-only"} 2
""")
async def long_prompts_and_short_ones(_: Path) -> AsyncIterator[int]:
    labels = {address: {"llm-d.ai/role": role} for address, role in ROLES.items()}
    async with (
        running_picker(tuple(ROLES), config=PD, labels=labels) as picker,
        page_of(picker.metrics) as port,
    ):
        for length in (1000, 1, 1):
            body = json.dumps({"model": "m", "prompt": "x" * length}).encode()
            await answered(await posted(picker, body))
        yield port


ROLLOUT = """
plugins:
- type: disaggregatedset-rollout-screener
  parameters:
    scope: {labelSelector: set=s}
    headerSelectors: [{name: revision, headerName: x-rev, labelKey: rev, mode: strict}]
    revisionGating:
      mode: sum
      revisionLabelKey: rev
      roleLabelKey: role
      requireRoles: {values: [decode]}
"""


@scenario("""
    llm_d_epp_disaggregatedset_revision_gating_share{<ROLLOUT>,mode="sum",revision="a"} 0.5
    llm_d_epp_disaggregatedset_revision_gating_share{<ROLLOUT>,mode="sum",revision="b"} 0.5
    llm_d_epp_disaggregatedset_strict_header_no_match_total{<ROLLOUT>,selector="revision"} 1
    epp_requests_rejected_total{code="503",reason="rejected-no-endpoints"} 1
""")
async def a_revision_that_nobody_has(folder: Path) -> AsyncIterator[int]:
    pool = folder / "pool.yaml"
    pool.write_text(
        f"{MANIFEST}endpoints:\n"
        "- {name: a, address: 10.0.0.1, labels: {set: s, role: decode, rev: a}}\n"
        "- {name: b, address: 10.0.0.2, labels: {set: s, role: decode, rev: b}}\n"
    )
    options = options_for_tests(
        pool_file=pool, config_text=ROLLOUT, allow_experimental_plugins=True
    )
    async with running(options) as (_, ports), gateway_client(ports.grpc) as client:
        exchange = client.exchange()
        await exchange.post(BODY, {"x-rev": "c"})
        assert (await exchange.answer()).status == 503
        yield ports.metrics


@scenario("""
    llm_d_epp_request_total{<R>} 1
    inference_objective_request_total{model_name="m",target_model_name="m",priority="0"} absent
    inference_pool_ready_pods{name="pool"} absent
    inference_extension_info{commit="",build_ref="<VERSION>"} absent
""")
async def former_names_that_are_turned_off(folder: Path) -> AsyncIterator[int]:
    pool = folder / "pool.yaml"
    pool.write_text(f"{MANIFEST}endpoints: [{{name: a, address: 10.0.0.1}}]")
    async with running(options_for_tests(pool_file=pool, deprecated_metrics=False)) as (_, ports):
        await picks(ports.grpc, 1)
        yield ports.metrics


@scenario("""
    epp_metrics_port_rejections_total{reason="no-token"} 1
    epp_metrics_port_rejections_total{reason="invalid-token"} 0
    epp_metrics_port_rejections_total{reason="forbidden"} 0
    epp_metrics_port_rejections_total{reason="review-failed"} 0
    epp_metrics_port_rejections_total{reason="too-many-reviews"} 0
""")
async def a_scrape_without_a_token(_: Path) -> AsyncIterator[int]:
    metrics = Metrics()
    async with fake_kube_api() as kube, kube.client() as client, page_of(metrics) as page:
        guard = MetricsGuard(Access(KubeAccessReviews(client)), metrics.cluster.scrape_refused)
        pages = metrics_pages(metrics, dict, guard)
        guarded = HttpPort(pages, "127.0.0.1", 0, port_flag="--metrics-port")
        await get(await guarded.start(), "/metrics")
        yield page
        await guarded.stop()


@scenario("""
    epp_kubernetes_events_total{outcome="written"} 1
    epp_kubernetes_events_total{outcome="failed"} 0
""")
async def a_pool_without_endpoints_that_tells_of_it(folder: Path) -> AsyncIterator[int]:
    async with fake_kube_api() as kube:
        await kube.create(inference_pool(8000))
        options = options_for_tests(
            pool_name="pool",
            pool_namespace="models",
            kubeconfig=kubeconfig_for(kube.url, folder),
            emit_events=True,
        )
        async with running(options) as (_, ports):
            yield ports.metrics


@scenario("""
    epp_spans_lost_total{reason="not-taken"} 6
    epp_spans_lost_total{reason="queue-full"} 0
""")
async def a_collector_that_refuses_the_spans_of_a_request(folder: Path) -> AsyncIterator[int]:
    pool = folder / "pool.yaml"
    pool.write_text(f"{MANIFEST}endpoints: [{{name: a, address: 10.0.0.1}}]")
    with http_collector() as collector, pytest.MonkeyPatch.context() as patch:
        collector.is_broken = True
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        patch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        patch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        async with running(options_for_tests(pool_file=pool)) as (_, ports):
            await picks(ports.grpc, 1)
            yield ports.metrics


@scenario("""
    epp_connection_limits_total{port="ext-proc",limit="handshake"} 1
    epp_connection_limits_total{port="ext-proc",limit="handshakes"} 0
    epp_connection_limits_total{port="ext-proc",limit="resources"} 0
    epp_connection_limits_total{port="ext-proc",limit="handshake-rate"} 0
    epp_connection_limits_total{port="ext-proc",limit="connections"} 0
    epp_connection_limits_total{port="metrics",limit="handshake"} 0
""")
async def a_peer_that_speaks_no_tls(folder: Path) -> AsyncIterator[int]:
    pool = folder / "pool.yaml"
    pool.write_text(MANIFEST)
    options = options_for_tests(pool_file=pool, secure_serving=True, transport="native")
    async with running(options) as (_, ports):
        await said_to(ports.grpc, b"GET / HTTP/1.1\r\n\r\n")
        yield ports.metrics


def described() -> dict[str, MetricSpec]:
    """Everything there is, that of bundled plugins included, by name."""
    registry = PluginRegistry()
    of_plugins = [spec for each in registry.types() for spec in describe(each, registry).metrics]
    ours = [spec for section in CATALOGUE for spec in section.metrics]
    return {spec.name: spec for spec in (*ours, *of_plugins)}


def samples_of(page: Mapping[Series, float], name: str) -> Iterator[tuple[str, Series, float]]:
    """Those of a metric, each with what its name has behind the metric's."""
    for series, value in page.items():
        rest = series[0].removeprefix(name)
        if rest in {"", "_bucket", "_sum", "_count"} and series[0].startswith(name):
            yield rest, series, value


def twin_in(page: Mapping[Series, float], spec: MetricSpec) -> dict[Series, float]:
    """What the page shows under the former name."""
    assert spec.twin is not None
    return {series: value for _, series, value in samples_of(page, spec.twin.name)}


def sums_in(page: Mapping[Series, float], spec: MetricSpec) -> dict[Series, float]:
    """What it should show, by what stands under the name of today."""
    assert spec.twin is not None
    former = dict(zip(spec.twin.keeps, spec.twin.labels, strict=True)) | {"le": "le"}
    sums: dict[Series, float] = {}
    for rest, (_, labels), value in samples_of(page, spec.name):
        kept = frozenset((former[name], text) for name, text in labels if name in former)
        series = spec.twin.name + rest, kept
        sums[series] = sums.get(series, 0.0) + value
    return sums


SCENARIOS = {name: each for name, each in vars().items() if isinstance(each, Scenario)}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_page_shows_what_happened(name: str, tmp_path: Path) -> None:
    known = SCENARIOS[name]

    async with known.run(tmp_path) as port:
        page = await scraped(port, known.expected)

    has_twins = any(name.startswith("inference_extension_info") for name, _ in page)
    for spec in described().values():
        if spec.twin is not None and has_twins:
            assert twin_in(page, spec) == pytest.approx(sums_in(page, spec)), spec.name


def test_every_metric_has_its_value_asserted_in_a_scenario() -> None:
    asserted = {
        each.metric
        for known in SCENARIOS.values()
        for each in known.expected
        if each.value != "absent"
    }

    assert described().keys() - asserted == set()
    assert asserted - described().keys() == set()
