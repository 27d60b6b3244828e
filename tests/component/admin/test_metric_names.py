"""The names, types, labels and buckets that dashboards rely on, as seen by a scraper."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

import aiohttp
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from epp.admin.http_port import HttpPort
from epp.admin.metrics_pages import metrics_pages
from epp.framework.request import TerminationCause
from epp.framework.usage import Usage
from epp.observability.metric_catalogue import CATALOGUE
from epp.observability.metrics import Metrics
from epp.testing import endpoint_of

L = (
    "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60 120 180 240 300"
    " 360 480 600 900 1200 1800 2700 3600"
)
S = "0.0001 0.0002 0.0005 0.001 0.002 0.005 0.01 0.02 0.05 0.1"
B = (
    "64 128 256 512 1024 2048 4096 8192 16384 32768 65536 131072 262144 524288 1.048576e+06"
    " 2.097152e+06 4.194304e+06 8.388608e+06 1.6777216e+07 3.3554432e+07 6.7108864e+07"
    " 1.34217728e+08 2.68435456e+08 5.36870912e+08 1.073741824e+09"
)
T = (
    "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 32778 65536 131072 262144 524288"
    " 1.048576e+06"
)
MT = "model_name target_model_name"
MTFP = f"{MT} fairness_id priority"
PLUGIN = "extension_point plugin_type plugin_name"

# name, type, labels, buckets, former name, its labels
REFERENCE = [
    ("request_total", "counter", MTFP, "", "inference_objective_request_total", f"{MT} priority"),
    (
        "request_error_total",
        "counter",
        f"{MTFP} error_code",
        "",
        "inference_objective_request_error_total",
        f"{MT} error_code",
    ),
    (
        "request_duration_seconds",
        "histogram",
        MTFP,
        L,
        "inference_objective_request_duration_seconds",
        MT,
    ),
    ("request_size_bytes", "histogram", MTFP, B, "inference_objective_request_sizes", MT),
    (
        "response_size_bytes",
        "histogram",
        MTFP,
        "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 32778 65536",
        "inference_objective_response_sizes",
        MT,
    ),
    ("request_input_tokens", "histogram", MTFP, T, "inference_objective_input_tokens", MT),
    (
        "request_output_tokens",
        "histogram",
        MTFP,
        "1 8 16 32 64 128 256 512 1024 2048 4096 8192",
        "inference_objective_output_tokens",
        MT,
    ),
    (
        "request_cached_tokens",
        "histogram",
        MTFP,
        T,
        "inference_objective_prompt_cached_tokens",
        MT,
    ),
    ("request_running", "gauge", MTFP, "", "inference_objective_running_requests", "model_name"),
    (
        "request_ntpot_seconds",
        "histogram",
        MTFP,
        "0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10",
        "inference_objective_normalized_time_per_output_token_seconds",
        MT,
    ),
    ("request_ttft_seconds", "histogram", f"{MTFP} streaming", L[: L.index(" 180")], "", ""),
    (
        "request_streaming_tpot_seconds",
        "histogram",
        MTFP,
        "0.0005 0.00205 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.125 0.15 0.2 0.3 0.4 0.5 0.6 0.8 1 2",
        "",
        "",
    ),
    (
        "request_streaming_itl_seconds",
        "histogram",
        MTFP,
        "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.15 0.2 0.3 0.5 0.75 1 2",
        "",
        "",
    ),
    (
        "request_processing_duration_seconds",
        "histogram",
        "",
        "0.0005 0.001 0.002 0.005 0.01 0.015 0.025 0.04 0.06 0.1 0.25 0.5 1 2.5 5 10",
        "",
        "",
    ),
    (
        "response_processing_duration_seconds",
        "histogram",
        "",
        "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5",
        "",
        "",
    ),
    (
        "scheduler_e2e_duration_seconds",
        "histogram",
        "",
        S,
        "inference_extension_scheduler_e2e_duration_seconds",
        "",
    ),
    (
        "scheduler_attempts_total",
        "counter",
        "status target_model_name endpoint_name namespace port",
        "",
        "inference_extension_scheduler_attempts_total",
        "status target_model_name pod_name namespace port",
    ),
    (
        "plugin_duration_seconds",
        "histogram",
        PLUGIN,
        S,
        "inference_extension_plugin_duration_seconds",
        PLUGIN,
    ),
    ("info", "gauge", "commit build_ref", "", "inference_extension_info", "commit build_ref"),
    ("ready_endpoints", "gauge", "name", "", "inference_pool_ready_pods", "name"),
    *(
        (f"average_{what}", "gauge", "name", "", f"inference_pool_average_{what}", "name")
        for what in ("kv_cache_utilization", "queue_size", "running_requests")
    ),
    *(
        (f"std_dev_{what}", "gauge", "name", "", "", "")
        for what in ("kv_cache_utilization", "queue_size", "running_requests")
    ),
    (
        "per_endpoint_queue_size",
        "gauge",
        "name model_server_endpoint",
        "",
        "inference_pool_per_pod_queue_size",
        "name model_server_pod",
    ),
    (
        "datalayer_poll_errors_total",
        "counter",
        "source_type",
        "",
        "llm_d_inference_scheduler_datalayer_poll_errors_total",
        "source_type",
    ),
    (
        "datalayer_extract_errors_total",
        "counter",
        "source_type extractor_type",
        "",
        "llm_d_inference_scheduler_datalayer_extract_errors_total",
        "source_type extractor_type",
    ),
    ("extproc_streams_inflight", "gauge", "", "", "", ""),
    (
        "extproc_stream_duration_seconds",
        "histogram",
        "",
        "0.001 0.005 0.01 0.05 0.1 0.5 1 5 10 30 60 120 300 600",
        "",
        "",
    ),
    ("extproc_streams_total", "counter", "code", "", "", ""),
]
OURS = [
    ("requests_rejected_total", "counter", "code reason"),
    ("responses_total", "counter", "code_class"),
    ("request_terminations_total", "counter", "cause"),
    ("fail_open_total", "counter", "reason"),
    ("requests_in_flight", "gauge", ""),
    ("buffered_bytes", "gauge", ""),
    ("overload_total", "counter", "signal outcome"),
    ("connection_limits_total", "counter", "port limit"),
    ("event_loop_lag_seconds", "gauge", ""),
    ("asyncio_tasks", "gauge", ""),
    ("extproc_ignored_messages_total", "counter", "kind"),
    ("response_phase_errors_total", "counter", ""),
    ("plugin_errors_total", "counter", PLUGIN),
    ("plugins_switched_off_total", "counter", "plugin_type plugin_name"),
    ("pool_file_errors_total", "counter", "kind"),
    ("pool_reloads_total", "counter", "outcome"),
    ("pool_file_up_to_date", "gauge", ""),
    ("config_reloads_total", "counter", "outcome"),
    ("config_up_to_date", "gauge", ""),
    ("endpoint_errors_total", "counter", "endpoint_name namespace port"),
    ("endpoint_ejections_total", "counter", ""),
    ("ejected_endpoints", "gauge", ""),
    ("ready", "gauge", ""),
    ("scrape_interval_seconds", "gauge", "source_type"),
    ("stale_endpoints", "gauge", ""),
    ("endpoints", "gauge", ""),
    ("unmatched_pods", "gauge", ""),
    ("gauge_underflows_total", "counter", ""),
    ("pool_problems_total", "counter", "kind"),
    ("leader", "gauge", ""),
    ("informer_synced", "gauge", "resource"),
    ("informer_last_contact_seconds", "gauge", "resource"),
    ("informer_relists_total", "counter", "resource reason"),
    ("informer_watch_errors_total", "counter", "resource kind"),
    ("informer_events_total", "counter", "resource type"),
    ("informer_repairs_total", "counter", "resource"),
    ("metrics_port_rejections_total", "counter", "reason"),
    ("kubernetes_events_total", "counter", "outcome"),
    ("spans_lost_total", "counter", "reason"),
]
TABLE = [
    *(
        (f"llm_d_epp_{name}", kind, labels, buckets)
        for name, kind, labels, buckets, _, _ in REFERENCE
    ),
    *((twin, kind, labels, buckets) for _, kind, _, buckets, twin, labels in REFERENCE if twin),
    *((f"epp_{name}", kind, labels, "") for name, kind, labels in OURS),
    (
        "epp_scrape_duration_seconds",
        "histogram",
        "source_type",
        "0.0005 0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1",
    ),
]


def everything_happened_once() -> Metrics:
    metrics = Metrics(
        commit="c",
        build_ref="b",
        stream_metrics=True,
        lost_spans=lambda: {"queue-full": 1, "not-taken": 2},
    )
    request = metrics.request("m", "t", "f", 0)
    request.admitted(1)
    request.running_started()
    request.error("Unknown")
    request.piece_followed(0.1)
    request.completed(
        seconds=1, response_bytes=1, streaming=True, ttft_seconds=0.1, usage=Usage(2, 2, 4, 1)
    )
    metrics.scheduled(0.001, "t", None)
    metrics.plugin_timer("Scorer", "t", "n")(0.001)
    metrics.plugin_error("Scorer", "t", "n")
    metrics.plugin_switched_off("t", "n")
    metrics.answers.rejected(429, "rejected-saturated")
    metrics.answers.responded(200)
    metrics.endpoint_failed(endpoint_of("e1"))
    metrics.terminated(TerminationCause.NATURAL)
    metrics.failed_open("internal")
    metrics.overloaded("buffered-bytes", "rejected")
    metrics.message_ignored("request-headers")
    metrics.response_phase_error()
    metrics.files.pool_file_error("entry")
    metrics.files.pool_reloaded("success")
    metrics.pool.changed("pool", 1)
    metrics.pool.follow(lambda: [endpoint_of("e1")])
    metrics.pool.refresh(oldest=0)
    metrics.scrapes.poll_errors("s").inc()
    metrics.scrapes.extract_errors("s", "e").inc()
    metrics.scrapes.duration("s").observe(0.1)
    metrics.scrapes.interval("s").set(1)
    metrics.cluster.synced("pods", True)
    metrics.cluster.contacted("pods")
    metrics.cluster.relisted("pods", "first")
    metrics.cluster.watch_failed("pods", "unreachable")
    metrics.cluster.event_received("pods", "ADDED")
    metrics.cluster.leads(True)
    metrics.streams.stream_opened()
    metrics.streams.stream_opened()
    metrics.streams.stream_closed("OK", 1)
    return metrics


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = HttpPort(
        metrics_pages(everything_happened_once(), dict), "127.0.0.1", 0, port_flag="--metrics-port"
    )
    port = await server.start()
    yield f"http://127.0.0.1:{port}/metrics"
    await server.stop()


async def scrape(address: str, accept: str) -> tuple[str, Mapping[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(address, headers={"Accept": accept}) as response,
    ):
        assert response.status == 200
        return await response.text(), response.headers


def by_name(families: Iterable[Metric]) -> dict[str, Metric]:
    return {
        family.name + ("_total" if family.type == "counter" else ""): family for family in families
    }


def labels_and_bounds(family: Metric) -> tuple[set[str], list[str]]:
    labels = {label for sample in family.samples for label in sample.labels}
    bounds = [sample.labels["le"] for sample in family.samples if "le" in sample.labels]
    return labels - {"le"}, list(dict.fromkeys(bounds))


@pytest.mark.parametrize(
    "accept",
    ["text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"],
    ids=["text", "openmetrics"],
)
async def test_every_metric_has_the_name_type_labels_and_buckets_of_the_table(
    address: str, accept: str
) -> None:
    text, headers = await scrape(address, accept)

    is_text = accept.startswith("text/plain")
    families = by_name(
        parse_text(text) if is_text else parse_openmetrics(text)  # type: ignore[no-untyped-call]
    )
    assert headers["Content-Type"].split(";")[0] == accept.split(";")[0]
    for name, kind, labels, buckets in TABLE:
        family = families[name]
        assert family.type == kind, name
        assert family.documentation.startswith("[ALPHA] "), name
        found_labels, found_bounds = labels_and_bounds(family)
        assert found_labels == set(labels.split()), name
        expected = [*buckets.split(), "+Inf"] if kind == "histogram" else []
        if is_text:
            assert found_bounds == expected, name
        else:
            assert [float(bound) for bound in found_bounds] == [float(b) for b in expected], name
    others = families.keys() - {name for name, *_ in TABLE}
    assert all(name.startswith("process_") for name in others), others


async def test_there_are_no_created_series(address: str) -> None:
    for accept in ("", "application/openmetrics-text"):
        text, _ = await scrape(address, accept)
        assert "_created" not in text


def test_the_table_is_all_of_the_catalogue() -> None:
    catalogued = {spec.name for section in CATALOGUE for spec in section.metrics}
    twins = {spec.twin.name for section in CATALOGUE for spec in section.metrics if spec.twin}

    assert {name for name, *_ in TABLE} == catalogued | twins
