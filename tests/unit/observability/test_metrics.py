from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from epp.framework.endpoint import Endpoint, EndpointId
from epp.framework.request import TerminationCause
from epp.framework.usage import Usage
from epp.observability import instruments, request_series
from epp.observability.answer_metrics import MAX_REJECTION_REASONS
from epp.observability.metrics import MOST_LEFT, Metrics
from epp.testing import endpoint_of
from tests.fakes.metrics.samples import page, samples_of, value_of

LABELS = {
    "model_name": "llama",
    "target_model_name": "llama-8b",
    "fairness_id": "tenant",
    "priority": "-1",
}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def an_endpoint() -> Endpoint:
    return Endpoint(
        id=EndpointId("uid", 8000),
        address="10.0.0.1:8000",
        ip="10.0.0.1",
        port=8000,
        name="pod-rank-0",
        namespace="ns",
        pod_name="pod",
        rank=0,
    )


def test_an_admitted_request_is_counted_with_its_size(metrics: Metrics) -> None:
    metrics.request("llama", "llama-8b", "tenant", -1).admitted(100)

    assert value_of(metrics, "llm_d_epp_request_total", **LABELS) == 1
    bucket = "llm_d_epp_request_size_bytes_bucket"
    assert value_of(metrics, bucket, **LABELS, le="64") == 0
    assert value_of(metrics, bucket, **LABELS, le="128") == 1
    assert value_of(metrics, "llm_d_epp_request_size_bytes_sum", **LABELS) == 100


def test_a_completed_stream_fills_every_histogram(metrics: Metrics) -> None:
    request = metrics.request("llama", "llama-8b", "tenant", -1)

    request.piece_followed(0.25)
    request.completed(
        seconds=2.5,
        response_bytes=300,
        streaming=True,
        ttft_seconds=0.5,
        usage=Usage(prompt_tokens=7, completion_tokens=5, total_tokens=12, cached_tokens=0),
    )

    sums = {
        "request_duration_seconds": 2.5,
        "response_size_bytes": 300,
        "request_input_tokens": 7,
        "request_output_tokens": 5,
        "request_cached_tokens": 0,
        "request_ntpot_seconds": 0.5,
        "request_ttft_seconds": 0.5,
        "request_streaming_tpot_seconds": 0.5,
        "request_streaming_itl_seconds": 0.25,
    }
    for name, total in sums.items():
        assert value_of(metrics, f"llm_d_epp_{name}_sum", **LABELS) == total, name
        assert value_of(metrics, f"llm_d_epp_{name}_count", **LABELS) == 1, name
    assert value_of(metrics, "llm_d_epp_request_ttft_seconds_count", streaming="true") == 1


@pytest.mark.parametrize(
    ("streaming", "usage", "absent"),
    [
        (True, None, {"input_tokens", "output_tokens", "cached_tokens", "ntpot", "tpot"}),
        (True, Usage(0, 0, 0, None), {"input_tokens", "output_tokens", "cached_tokens", "ntpot"}),
        (True, Usage(3, 1, 4, None), {"cached_tokens", "tpot"}),
        (False, Usage(3, 9, 12, 1), {"tpot"}),
    ],
    ids=["no usage", "zero tokens", "one token", "not streaming"],
)
def test_what_was_not_reported_is_not_observed(
    metrics: Metrics, streaming: bool, usage: Usage | None, absent: set[str]
) -> None:
    request = metrics.request("m", "m", "f", 0)

    request.completed(
        seconds=1, response_bytes=1, streaming=streaming, ttft_seconds=0.1, usage=usage
    )

    text = page(metrics)
    for name in absent:
        assert f"request_{name}" not in text
        assert f"request_streaming_{name}" not in text
    assert value_of(metrics, "llm_d_epp_request_duration_seconds_count") == 1


def test_a_response_without_a_body_has_no_time_to_first_token(metrics: Metrics) -> None:
    metrics.request("m", "m", "f", 0).completed(seconds=1, response_bytes=0, streaming=False)

    assert "llm_d_epp_request_ttft_seconds" not in page(metrics)


def test_no_time_passed_is_no_duration(metrics: Metrics) -> None:
    metrics.request("m", "m", "f", 0).completed(seconds=0, response_bytes=0, streaming=False)

    assert "llm_d_epp_request_duration_seconds" not in page(metrics)


def test_only_the_first_error_of_a_request_counts(metrics: Metrics) -> None:
    request = metrics.request("m", "m", "f", 0)

    request.error("BadRequest")
    request.error("Unknown")

    name = "llm_d_epp_request_error_total"
    assert value_of(metrics, name, error_code="BadRequest") == 1
    assert value_of(metrics, name) == 1


@given(
    calls=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["running_started", "running_ended"]))
    )
)
def test_running_requests_are_those_started_and_not_ended_in_any_order(
    calls: list[tuple[int, str]],
) -> None:
    metrics = Metrics()
    requests = [metrics.request("m", "m", "f", 0) for _ in range(4)]
    running: set[int] = set()
    for index, call in calls:
        getattr(requests[index], call)()
        (running.add if call == "running_started" else running.discard)(index)

    assert value_of(metrics, "llm_d_epp_request_running") == len(running)
    assert value_of(metrics, "epp_gauge_underflows_total") == 0


def test_a_request_without_a_model_name_is_not_running(metrics: Metrics) -> None:
    request = metrics.request("", "t", "f", 0)

    request.running_started()
    request.running_ended()

    assert "llm_d_epp_request_running" not in page(metrics)


def test_the_first_model_past_the_limit_is_other(metrics: Metrics) -> None:
    for index in range(500):
        metrics.request(f"model-{index}", f"target-{index}", "f", 0).admitted(1)

    metrics.request("one-too-many", "target-0", "f", 0).admitted(1)
    metrics.request("model-0", "target-0", "f", 0).admitted(1)

    name = "llm_d_epp_request_total"
    assert value_of(metrics, name, model_name="other", target_model_name="target-0") == 1
    assert value_of(metrics, name, model_name="model-0", target_model_name="target-0") == 2
    assert value_of(metrics, name, model_name="one-too-many") == 0


def test_models_of_the_scheduler_share_the_limit(metrics: Metrics) -> None:
    for index in range(1000):
        metrics.scheduled(0.001, f"model-{index}", None)

    metrics.scheduled(0.001, "one-too-many", None)
    metrics.request("another", "model-1", "f", 0).admitted(1)

    attempts = "llm_d_epp_scheduler_attempts_total"
    assert value_of(metrics, attempts, target_model_name="other") == 1
    assert value_of(metrics, "llm_d_epp_request_total", model_name="other") == 1


def test_the_first_fairness_id_past_the_limit_is_other_and_models_are_not_affected(
    metrics: Metrics,
) -> None:
    for index in range(1001):
        metrics.request("m", "m", f"tenant-{index}", 0).admitted(1)

    name = "llm_d_epp_request_total"
    assert value_of(metrics, name, fairness_id="other") == 1
    assert value_of(metrics, name, fairness_id="tenant-999") == 1
    assert value_of(metrics, name, model_name="m") == 1001


def test_priorities_are_bounded(metrics: Metrics) -> None:
    for priority in range(request_series.MAX_PRIORITIES + 1):
        metrics.request("m", "m", "f", priority).admitted(1)

    assert value_of(metrics, "llm_d_epp_request_total", priority="other") == 1


def test_combinations_are_bounded_and_no_request_is_lost(metrics: Metrics) -> None:
    for model in range(200):
        for tenant in range(20):
            metrics.request(f"m-{model}", f"m-{model}", f"t-{tenant}", 0).admitted(1)
    for model in range(900):
        metrics.request(f"m-{model}", f"m-{model // 2}", "late", model % 3).admitted(1)

    name = "llm_d_epp_request_total"
    lines = [line for line in page(metrics).splitlines() if line.startswith(name + "{")]
    most = request_series.MAX_LABEL_SETS + request_series.MAX_LABEL_SETS_WITHOUT_FAIRNESS
    assert len(lines) <= most + request_series.MAX_PRIORITIES + 1
    assert value_of(metrics, name) == 200 * 20 + 900
    assert value_of(metrics, name, fairness_id="other", model_name="m-199") == 20 + 1


requests_in_any_mix = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["a", "c"]),
        st.sampled_from(["", "x", "y"]),
        st.integers(-1, 1),
        st.floats(0.001, 50),
        st.integers(1, 10_000),
    ),
    max_size=12,
)


@settings(max_examples=25)
@given(requests=requests_in_any_mix)
def test_twins_are_the_sums_of_what_they_were_replaced_by(
    requests: list[tuple[str, str, str, int, float, int]],
) -> None:
    metrics = Metrics()
    for model, target, fairness_id, priority, seconds, size in requests:
        request = metrics.request(model, target, fairness_id, priority)
        request.admitted(size)
        request.running_started()
        request.error("Unknown")
        request.completed(
            seconds=seconds,
            response_bytes=size,
            streaming=False,
            usage=Usage(size, size, 2 * size, size),
        )

    families = {f.name: f for f in text_string_to_metric_families(page(metrics))}
    for old, new in {
        "inference_objective_request": "llm_d_epp_request",
        "inference_objective_request_error": "llm_d_epp_request_error",
        "inference_objective_request_duration_seconds": "llm_d_epp_request_duration_seconds",
        "inference_objective_request_sizes": "llm_d_epp_request_size_bytes",
        "inference_objective_response_sizes": "llm_d_epp_response_size_bytes",
        "inference_objective_input_tokens": "llm_d_epp_request_input_tokens",
        "inference_objective_output_tokens": "llm_d_epp_request_output_tokens",
        "inference_objective_prompt_cached_tokens": "llm_d_epp_request_cached_tokens",
        "inference_objective_running_requests": "llm_d_epp_request_running",
        "inference_objective_normalized_time_per_output_token_seconds": (
            "llm_d_epp_request_ntpot_seconds"
        ),
    }.items():
        if new not in families:
            assert old not in families
            continue
        expected: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        kept = set(families[old].samples[0].labels)
        for sample in families[new].samples:
            labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k in kept))
            key = (sample.name.removeprefix(new), labels)
            expected[key] = expected.get(key, 0) + sample.value
        found = {
            (sample.name.removeprefix(old), tuple(sorted(sample.labels.items()))): sample.value
            for sample in families[old].samples
        }
        assert found.keys() == expected.keys()
        assert found == pytest.approx(expected)


def test_twins_can_be_turned_off() -> None:
    metrics = Metrics(deprecated_twins=False)
    metrics.request("m", "m", "f", 0).admitted(1)
    metrics.pool.changed("pool", 1)

    text = page(metrics)

    assert "inference_" not in text
    assert "llm_d_epp_request_total" in text


def test_an_attempt_names_the_endpoint_and_its_twin_the_pod(metrics: Metrics) -> None:
    metrics.scheduled(0.001, "m", an_endpoint())
    metrics.scheduled(0.002, "m", None)

    labels = {"target_model_name": "m", "namespace": "ns", "port": "8000", "status": "success"}
    name = "scheduler_attempts_total"
    assert value_of(metrics, f"llm_d_epp_{name}", endpoint_name="pod-rank-0", **labels) == 1
    assert value_of(metrics, f"inference_extension_{name}", pod_name="pod-rank-0", **labels) == 1
    failure = {"status": "failure", "endpoint_name": "", "namespace": "", "port": ""}
    assert value_of(metrics, f"llm_d_epp_{name}", **failure) == 1
    assert value_of(metrics, "llm_d_epp_scheduler_e2e_duration_seconds_sum") == 0.003


def test_attempts_for_endpoints_that_come_and_go_do_not_pile_up(metrics: Metrics) -> None:
    stays = endpoint_of("stays")
    metrics.scheduled(0.1, "m", stays)
    for number in range(2 * MOST_LEFT):
        leaves = endpoint_of(f"e{number}")
        metrics.scheduled(0.1, "m", leaves)
        metrics.endpoints_left([leaves])
    metrics.scheduled(0.1, "m", stays)

    name = "llm_d_epp_scheduler_attempts_total"
    assert value_of(metrics, name) <= MOST_LEFT
    assert value_of(metrics, name, endpoint_name=stays.name) == 2


def test_errors_of_endpoints_that_come_and_go_do_not_pile_up(metrics: Metrics) -> None:
    stays = endpoint_of("stays")
    for number in range(2 * MOST_LEFT):
        leaves = endpoint_of(f"e{number}")
        metrics.endpoint_failed(stays)
        metrics.endpoint_failed(leaves)
        metrics.endpoints_left([leaves])

    name = "epp_endpoint_errors_total"
    assert value_of(metrics, name, endpoint_name=stays.name) == 2 * MOST_LEFT
    assert value_of(metrics, name) < 3 * MOST_LEFT


def test_attempts_beyond_the_limit_are_known_by_endpoint_and_no_longer_by_model() -> None:
    metrics = Metrics()
    endpoints = [endpoint_of(f"e{number}") for number in range(20)]
    models = [f"m{number}" for number in range(instruments.MAX_SERIES_PER_FAMILY // 10)]
    for model in models:
        for endpoint in endpoints:
            metrics.scheduled(0.1, model, endpoint)
        metrics.scheduled(0.1, model, None)

    name = "llm_d_epp_scheduler_attempts_total"
    samples = samples_of(metrics, name)
    attempts = Counter[str]()
    for sample in samples:
        attempts[sample.labels["endpoint_name"]] += int(sample.value)
    assert len(samples) == instruments.MAX_SERIES_PER_FAMILY + len(endpoints) + 1
    assert attempts == dict.fromkeys(["", *(each.name for each in endpoints)], len(models))


def test_reasons_that_plugins_make_up_are_bounded_and_the_status_stays(metrics: Metrics) -> None:
    for number in range(MAX_REJECTION_REASONS + 10):
        metrics.answers.rejected(429, f"tenant {number} has enough")
    metrics.answers.rejected(503, "another")

    name = "epp_requests_rejected_total"
    assert value_of(metrics, name, code="429", reason="other") == 10
    assert value_of(metrics, name, code="503", reason="other") == 1
    assert value_of(metrics, name) == MAX_REJECTION_REASONS + 11


@pytest.mark.parametrize(
    ("status", "code_class"),
    [(101, "1xx"), (200, "2xx"), (404, "4xx"), (503, "5xx"), (599, "5xx"), (0, "other")],
)
def test_responses_are_counted_by_the_class_of_their_status(
    metrics: Metrics, status: int, code_class: str
) -> None:
    metrics.answers.responded(status)

    assert value_of(metrics, "epp_responses_total", code_class=code_class) == 1
    assert value_of(metrics, "epp_responses_total") == 1


def test_the_gauge_of_a_former_pool_goes_away(metrics: Metrics) -> None:
    metrics.pool.changed("old", 3)
    metrics.pool.changed("new", 0)

    assert 'name="old"' not in page(metrics)
    assert 'inference_pool_ready_pods{name="new"} 0' in page(metrics)
    assert value_of(metrics, "epp_endpoints") == 0


def test_counters_with_known_values_start_at_zero(metrics: Metrics) -> None:
    lines = page(metrics).splitlines()

    assert 'epp_fail_open_total{reason="internal"} 0' in lines
    assert 'epp_overload_total{signal="streams",outcome="rejected"} 0' in lines
    assert 'epp_responses_total{code_class="5xx"} 0' in lines

    for cause in TerminationCause:
        assert f'epp_request_terminations_total{{cause="{cause}"}} 0' in lines
    assert 'epp_pool_reloads_total{outcome="failure"} 0' in lines
    assert 'epp_pool_file_errors_total{kind="entry"} 0' in lines


def test_streams_are_shown_only_when_asked_for() -> None:
    shown, hidden = Metrics(stream_metrics=True), Metrics()
    for metrics in (shown, hidden):
        metrics.streams.stream_opened()
        metrics.streams.stream_opened()
        metrics.streams.stream_closed("Canceled", 2.0)

    assert "extproc_stream" not in page(hidden)
    assert value_of(shown, "llm_d_epp_extproc_streams_inflight") == 1
    assert value_of(shown, "llm_d_epp_extproc_streams_total", code="Canceled") == 1
    assert value_of(shown, "llm_d_epp_extproc_stream_duration_seconds_sum") == 2


def test_tasks_are_counted_when_the_page_is_written() -> None:
    tasks: list[str] = []
    metrics = Metrics(tasks=lambda: len(tasks))
    tasks.append("a")

    assert value_of(metrics, "epp_asyncio_tasks") == 1


def test_the_build_is_told() -> None:
    text = page(Metrics(commit="abc", build_ref="v1"))

    assert 'llm_d_epp_info{commit="abc",build_ref="v1"} 1' in text


def test_two_processes_in_one_do_not_share_counts() -> None:
    first, second = Metrics(), Metrics()

    first.failed_open("internal")

    assert value_of(first, "epp_fail_open_total") == 1
    assert value_of(second, "epp_fail_open_total") == 0


def test_a_model_name_with_a_lone_surrogate_still_gives_a_page(metrics: Metrics) -> None:
    metrics.request("m\udfff", "t", "f", 0).admitted(1)

    assert value_of(metrics, "llm_d_epp_request_total", model_name="m?") == 1


def test_a_pool_file_is_up_to_date_while_its_last_version_is_in_force(metrics: Metrics) -> None:
    assert "\nepp_pool_file_up_to_date" not in page(metrics)

    metrics.files.pool_reloaded("failure")
    assert value_of(metrics, "epp_pool_file_up_to_date") == 0
    metrics.files.pool_reloaded("success")
    assert value_of(metrics, "epp_pool_file_up_to_date") == 1
