"""Load, cache size and adapters, from the pages of the engines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from epp.framework.data_layer import ExtractionError
from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.plugins.extractors.core_metrics import CoreMetricsExtractor
from epp.plugins.extractors.core_metrics_parameters import CustomMetricParameters, EngineConfig
from epp.testing import FakeContext, built, endpoint_of

SAMPLES = Path(__file__).parents[3] / "samples" / "metrics"
LABEL = "llm-d.ai/engine-type"
LEGACY_LABEL = "inference.networking.k8s.io/engine-type"
NOW = 5000.0

LOAD = b"vllm:num_requests_waiting 3\nvllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.25\n"
CACHE_INFO = b'vllm:cache_config_info{block_size="16",num_gpu_blocks="5000"} 1\n'
LORA = (
    b'vllm:lora_requests_info{running_lora_adapters="%b",waiting_lora_adapters="%b",'
    b'max_lora="%b"} %b\n'
)


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def extractor(**parameters: object) -> CoreMetricsExtractor:
    return built(CoreMetricsExtractor, **parameters)


def read(
    page: bytes,
    endpoint: Endpoint | None = None,
    by: CoreMetricsExtractor | None = None,
    labels: Mapping[str, str] | None = None,
) -> EndpointMetrics:
    """What a page without problems says."""
    endpoint = endpoint or endpoint_of(labels=labels)
    assert (by or extractor()).extract(page, endpoint, NOW)
    return endpoint.metrics


def problems(
    page: bytes, endpoint: Endpoint, by: CoreMetricsExtractor | None = None
) -> ExtractionError:
    with pytest.raises(ExtractionError) as caught:
        (by or extractor()).extract(page, endpoint, NOW)
    return caught.value


def numbers(metrics: EndpointMetrics) -> tuple[int, int, float, int, int]:
    return (
        metrics.waiting_queue_size,
        metrics.running_requests_size,
        metrics.kv_cache_usage,
        metrics.cache_block_size,
        metrics.cache_num_blocks,
    )


@pytest.mark.parametrize(
    ("name", "engine", "expected"),
    [
        ("vllm_v0.prom", "vllm", (3, 9, 0.4132, 16, 27448)),
        ("vllm_v1.prom", "vllm", (0, 17, 0.5479, 16, 21402)),
        ("vllm_v1_recent.prom", "vllm", (1, 2, 0.6183, 832, 745)),
        ("vllm_v1_dp4.prom", "vllm", (43, 89, 0.585, 16, 36448)),
        ("vllm_v1_dp4_large.prom", "vllm", (43, 89, 0.585, 16, 36448)),
        ("vllm_v1_lora.prom", "vllm", (2, 6, 0.33, 16, 18240)),
        ("vllm_lora_residency_proposed.prom", "vllm", (0, 3, 0.21, 16, 18240)),
        ("llm_d_inference_sim.prom", "vllm", (30, 10, 0.4, 16, 1024)),
        ("dynamo_worker.prom", "vllm", (2, 12, 0.57, 0, 0)),
        ("edge_openmetrics.prom", "vllm", (2, 5, 0.31, 0, 0)),
        ("sglang_unified.prom", "sglang", (3, 24, 0.73, 16, 26680)),
        ("sglang_priority.prom", "sglang", (6, 11, 0.42, 16, 62500)),
        ("sglang_pd_decode.prom", "sglang", (0, 37, 0.88, 0, 0)),
        ("trtllm_serve.prom", "trtllm-serve", (1, 12, 0.62, 32, 14021)),
        ("triton_tensorrt_llm.prom", "triton-tensorrt-llm", (4, 19, 0.5313, 64, 6239)),
        ("triton_generic.prom", "triton", (5, 0, 0.0, 0, 0)),
    ],
)
@pytest.mark.parametrize("is_labelled", [True, False], ids=["labelled", "unlabelled"])
def test_pages_of_engines_are_read(
    name: str, engine: str, expected: tuple[int, int, float, int, int], is_labelled: bool
) -> None:
    metrics = read(sample(name), labels={LABEL: engine} if is_labelled else {})

    assert numbers(metrics) == pytest.approx(expected)
    assert metrics.updated_at == NOW


@pytest.mark.parametrize("name", ["vllm_v1_dp4.prom", "vllm_v1_dp4_large.prom"])
def test_the_first_engine_alone_counts_if_so_configured(name: str) -> None:
    metrics = read(sample(name), by=extractor(aggregation="first"))

    assert numbers(metrics) == (0, 0, 0.02, 16, 9120)


def test_unusual_text_is_read_and_its_nan_is_a_problem() -> None:
    endpoint = endpoint_of()

    found = problems(sample("edge_format.prom"), endpoint)

    assert (found.applied, found.count) == (True, 2)
    assert numbers(endpoint.metrics) == (7, 15, 0.25, 16, 0)


def test_a_server_that_is_starting_does_not_look_fresh_and_idle() -> None:
    endpoint = endpoint_of(updated_at=None)

    found = problems(sample("vllm_v1_starting.prom"), endpoint)

    assert (found.applied, found.count) == (False, 4)
    assert endpoint.metrics == EndpointMetrics(cache_block_size=16)


@pytest.mark.parametrize(
    "page",
    [
        sample("trtllm_serve_iteration_stats.json"),
        b"<!DOCTYPE html><html><body>\nvllm: 404\n</body></html>",
        b"\x1f\x8b\x08\x00\xff\xfe\x00" * 100,
        b"",
    ],
    ids=["json", "html", "binary", "empty"],
)
@pytest.mark.parametrize("engine", ["vllm", "trtllm-serve", ""])
def test_a_page_of_something_else_is_one_error(page: bytes, engine: str) -> None:
    endpoint = endpoint_of(waiting=3, kv=0.5, labels={LABEL: engine})
    before = endpoint.metrics

    found = problems(page, endpoint)

    assert (found.applied, found.count) == (False, 1)
    assert endpoint.metrics is before


def test_adapters_of_a_page_are_those_of_the_newest_series() -> None:
    metrics = read(sample("vllm_v1_lora.prom"))

    assert metrics.active_models == {"sum-v1", "sql-v3"} == metrics.waiting_models
    assert metrics.max_active_models == 4


@pytest.mark.parametrize(
    ("times", "active", "waiting"),
    [
        pytest.param((b"10", b"20"), {"c"}, {"d"}, id="D1"),
        pytest.param((b"20", b"20"), {"a", "b"}, set(), id="D2"),
        pytest.param((b"5", b"NaN"), {"a", "b"}, set(), id="never NaN"),
        pytest.param((b"0", b"-5"), {"a", "b"}, set(), id="never negative"),
        pytest.param((b"0", b"+Inf"), {"a", "b"}, set(), id="never infinite"),
    ],
)
def test_the_adapter_series_of_the_largest_value_counts(
    times: tuple[bytes, bytes], active: set[str], waiting: set[str]
) -> None:
    page = LOAD + LORA % (b"a, b", b"", b"4", times[0]) + LORA % (b"c", b"d", b"4", times[1])

    metrics = read(page)

    assert numbers(metrics)[:3] == (3, 2, 0.25)
    assert (set(metrics.active_models), set(metrics.waiting_models)) == (active, waiting)
    assert metrics.max_active_models == 4


def test_a_page_without_adapters_is_no_problem() -> None:
    """Pitfall 27."""
    metrics = read(LOAD)

    assert metrics.max_active_models == 0
    assert metrics.active_models == metrics.waiting_models == frozenset()


@pytest.mark.parametrize("case", ["D3"])
def test_adapters_stay_when_their_family_goes(case: str) -> None:
    endpoint = endpoint_of(
        active_models=frozenset({"a"}), waiting_models=frozenset({"b"}), max_active_models=4
    )

    metrics = read(LOAD, endpoint)

    assert (set(metrics.active_models), set(metrics.waiting_models)) == ({"a"}, {"b"})
    assert metrics.max_active_models == 4


def test_adapters_follow_when_another_series_becomes_the_newest() -> None:
    by, endpoint = extractor(), endpoint_of()
    read(LOAD + LORA % (b"a", b"", b"4", b"10"), endpoint, by)
    read(LOAD + LORA % (b"a", b"", b"4", b"11"), endpoint, by)
    assert endpoint.metrics.active_models == {"a"}

    read(LOAD + LORA % (b"a", b"", b"4", b"11") + LORA % (b"", b"", b"4", b"12"), endpoint, by)

    assert endpoint.metrics.active_models == frozenset()


def test_adapters_of_several_engines_are_put_together() -> None:
    of_engine = b'vllm:lora_requests_info{engine="%b",running_lora_adapters="%b",max_lora="2"} %b\n'
    page = (
        LOAD
        + of_engine % (b"0", b"a", b"10")
        + of_engine % (b"0", b"b", b"20")
        + of_engine % (b"1", b"c", b"5")
    )

    both, first = read(page), read(page, by=extractor(aggregation="first"))

    assert (set(both.active_models), both.max_active_models) == ({"b", "c"}, 4)
    assert (set(first.active_models), first.max_active_models) == ({"b"}, 2)


@pytest.mark.parametrize(("text", "count"), [(b"", 0), (b"four", 1), (b"-1", 1), (b"9" * 30, 1)])
def test_places_for_adapters_that_are_no_number_keep_the_old_one(text: bytes, count: int) -> None:
    endpoint = endpoint_of(max_active_models=7)
    page = LOAD + LORA % (b"a", b"", text, b"1")

    if count:
        assert problems(page, endpoint).count == count
    else:
        read(page, endpoint)

    assert endpoint.metrics.max_active_models == 7
    assert endpoint.metrics.active_models == {"a"}


TWO_ENGINES = b'vllm:num_requests_waiting{engine="0"} 1\nvllm:num_requests_waiting{engine="1"} 9\n'


@pytest.mark.parametrize(
    ("aggregation", "spec", "expected"),
    [
        pytest.param("first", "vllm:num_requests_waiting", 1, id="D4"),
        pytest.param("first", "vllm:num_requests_waiting{engine=1}", 9, id="D5"),
        pytest.param("sum", "vllm:num_requests_waiting", 10, id="D4 added up"),
        pytest.param("sum", "vllm:num_requests_waiting{engine=1}", 9, id="D5 added up"),
    ],
)
def test_engines_of_a_page_are_chosen_or_added_up(
    aggregation: str, spec: str, expected: int
) -> None:
    config = EngineConfig(name="vllm", queued_requests_spec=spec)
    by = extractor(engine_configs=[config], aggregation=aggregation)

    assert read(TWO_ENGINES, by=by).waiting_queue_size == expected


@pytest.mark.parametrize("aggregation", ["first", "sum"], ids=["D6", "D6 added up"])
def test_of_a_series_that_is_there_twice_the_newest_counts(aggregation: str) -> None:
    page = (
        b"vllm:num_requests_waiting 5 1000\n"
        b"vllm:num_requests_waiting 2 3000\n"
        b"vllm:num_requests_waiting 8 2000\n"
    )
    config = EngineConfig(name="vllm", queued_requests_spec="vllm:num_requests_waiting")
    by = extractor(engine_configs=[config], aggregation=aggregation)

    assert read(page, by=by).waiting_queue_size == 2


@pytest.mark.parametrize("case", ["D7"])
def test_a_missing_family_is_an_error_and_keeps_the_old_value(case: str) -> None:
    endpoint = endpoint_of(kv=0.7, updated_at=1.0)

    found = problems(b"vllm:num_requests_waiting 6\nvllm:num_requests_running 1\n", endpoint)

    assert (found.applied, found.count) == (True, 1)
    assert "vllm:kv_cache_usage_perc" in str(found)
    assert endpoint.metrics.waiting_queue_size == 6
    assert endpoint.metrics.kv_cache_usage == 0.7
    assert endpoint.metrics.updated_at == NOW


@pytest.mark.parametrize(
    ("labels", "block_size", "blocks", "count"),
    [
        pytest.param(b'block_size="16",num_gpu_blocks="None"', 16, 77, 1, id="D9"),
        pytest.param(b'num_gpu_blocks="5000"', 0, 5000, 0, id="D10"),
        pytest.param(b'block_size="16"', 16, 77, 0, id="no number of blocks"),
        pytest.param(b'block_size="16",num_gpu_blocks=""', 16, 77, 0, id="empty number"),
        pytest.param(b'block_size="-16",num_gpu_blocks="5"', 0, 5, 1, id="negative"),
        pytest.param(b'block_size="1e3",num_gpu_blocks="5"', 0, 5, 1, id="fraction"),
    ],
)
def test_the_cache_is_read_from_labels(
    labels: bytes, block_size: int, blocks: int, count: int
) -> None:
    endpoint = endpoint_of(cache_block_size=32, cache_num_blocks=77)
    by = extractor()
    page = LOAD + b"vllm:cache_config_info{%b} 1\n" % labels

    for _ in range(2):
        if count:
            found = problems(page, endpoint, by)
            assert (found.applied, found.count) == (True, count)
        else:
            read(page, endpoint, by)

    assert endpoint.metrics.cache_block_size == block_size
    assert endpoint.metrics.cache_num_blocks == blocks


def test_the_cache_follows_when_its_labels_change() -> None:
    by, endpoint = extractor(), endpoint_of()
    info = b'vllm:cache_config_info{block_size="%d",num_gpu_blocks="9"} 1\n'
    read(LOAD + info % 16, endpoint, by)

    assert read(LOAD + info % 32, endpoint, by).cache_block_size == 32
    assert read(LOAD, endpoint, by).cache_block_size == 32


def test_a_line_of_the_cache_that_is_cut_off_changes_nothing() -> None:
    endpoint = endpoint_of(cache_block_size=32, cache_num_blocks=77)

    problems(LOAD + b'vllm:cache_config_info{block_size="16",num_gpu_b', endpoint)

    assert (endpoint.metrics.cache_block_size, endpoint.metrics.cache_num_blocks) == (32, 77)


@pytest.mark.parametrize(
    ("labels", "default", "waiting"),
    [
        pytest.param({LABEL: "foo"}, "sglang", 2, id="D11"),
        pytest.param({}, "sglang", 2, id="no label"),
        pytest.param({LABEL: "vllm"}, "sglang", 1, id="label"),
        pytest.param({LABEL: "", LEGACY_LABEL: "vllm"}, "sglang", 1, id="former label"),
        pytest.param({LABEL: "sglang", LEGACY_LABEL: "vllm"}, "vllm", 2, id="label over former"),
    ],
)
def test_the_label_tells_the_engine(labels: dict[str, str], default: str, waiting: int) -> None:
    page = (
        b"vllm:num_requests_waiting 1\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n"
        b"sglang:num_queue_reqs 2\nsglang:num_running_reqs 0\nsglang:token_usage 0\n"
    )

    metrics = read(page, by=extractor(default_engine=default), labels=labels)

    assert metrics.waiting_queue_size == waiting


def test_another_label_works_at_once() -> None:
    page = (
        b"vllm:num_requests_waiting 1\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n"
        b"sglang:num_queue_reqs 2\nsglang:num_running_reqs 0\nsglang:token_usage 0\n"
    )
    by, before = extractor(), endpoint_of(labels={LABEL: "vllm"})
    for labels, waiting in (({LABEL: "sglang"}, 2), ({}, 1), ({LABEL: "sglang"}, 2)):
        after = endpoint_of(labels=labels)
        object.__setattr__(after, "state", before.state)

        assert read(page, after, by).waiting_queue_size == waiting


def test_a_labelled_engine_is_believed_whatever_the_page_shows() -> None:
    endpoint = endpoint_of(labels={LABEL: "vllm"})

    found = problems(sample("sglang_unified.prom"), endpoint)

    assert (found.applied, found.count) == (False, 3)


def test_an_endpoint_without_a_label_may_become_another_engine() -> None:
    by, endpoint = extractor(), endpoint_of()
    for name, running in (("sglang_unified", 24), ("vllm_v1", 17), ("trtllm_serve", 12)):
        assert read(sample(f"{name}.prom"), endpoint, by).running_requests_size == running


def test_a_new_configuration_forgets_what_the_old_one_made_of_an_endpoint() -> None:
    endpoint = endpoint_of()
    read(LOAD, endpoint)
    by = extractor(default_engine="mine", engine_configs=[
        EngineConfig(name="mine", queued_requests_spec="vllm:num_requests_running")
    ])  # fmt: skip

    assert read(LOAD, endpoint, by).waiting_queue_size == 2


@pytest.mark.parametrize(
    ("old", "new", "expected"), [(0.41, None, 0.41), (0.5, 0.55, 0.55), (None, 0.62, 0.62)]
)
def test_the_new_name_of_the_cache_usage_wins(
    old: float | None, new: float | None, expected: float
) -> None:
    page = b"vllm:num_requests_waiting 0\nvllm:num_requests_running 0\n"
    page += b"" if old is None else b"vllm:gpu_cache_usage_perc %f\n" % old
    page += b"" if new is None else b"vllm:kv_cache_usage_perc %f\n" % new

    assert read(page).kv_cache_usage == pytest.approx(expected)


@pytest.mark.parametrize("value", [b"NaN", b"-1", b"+Inf", b"-Inf", b"1e300", b"many", b""])
def test_a_count_that_is_no_count_keeps_the_old_one(value: bytes) -> None:
    endpoint = endpoint_of(waiting=4)
    page = LOAD.replace(b"waiting 3", b"waiting " + value)

    found = problems(page, endpoint)

    assert (found.applied, found.count) == (True, 1)
    assert endpoint.metrics.waiting_queue_size == 4
    assert endpoint.metrics.running_requests_size == 2


@pytest.mark.parametrize("value", [b"NaN", b"-0.1", b"+Inf"])
def test_a_cache_usage_that_is_no_share_keeps_the_old_one(value: bytes) -> None:
    endpoint = endpoint_of(kv=0.4)

    found = problems(LOAD.replace(b"0.25", value), endpoint)

    assert (found.applied, found.count) == (True, 1)
    assert endpoint.metrics.kv_cache_usage == 0.4


def test_a_cache_usage_above_one_reads_as_full_and_is_a_problem() -> None:
    endpoint = endpoint_of()

    found = problems(LOAD.replace(b"0.25", b"57"), endpoint)

    assert (found.applied, found.count) == (True, 1)
    assert endpoint.metrics.kv_cache_usage == 1.0


def test_custom_metrics_become_attributes() -> None:
    config = EngineConfig(
        name="vllm",
        custom_metrics=[
            CustomMetricParameters(attribute_key="temperature", metric_spec="t{gpu=1}"),
            CustomMetricParameters(attribute_key="total", metric_spec="t", aggregation="sum"),
            CustomMetricParameters(attribute_key="peak", metric_spec="t", aggregation="max"),
        ],
    )
    context = FakeContext("core-metrics-extractor")
    by = built(CoreMetricsExtractor, context, engine_configs=[config])
    endpoint = endpoint_of()

    read(b'a 1\nt{gpu="0"} 40\nt{gpu="1"} -2.5\n', endpoint, by)
    absent = problems(b"a 1\n", endpoint, by)

    assert (absent.applied, absent.count) == (False, 3)
    attributes = endpoint.state.attributes
    assert attributes["temperature/core-metrics-extractor"] == -2.5
    assert attributes["total/core-metrics-extractor"] == 37.5
    assert attributes["peak/core-metrics-extractor"] == 40
    assert {"WaitingQueueSize", "KVCacheUsagePercent", "peak"} <= {
        output.data_type.name for output in context.outputs
    }


def test_a_custom_metric_that_is_absent_is_told_and_costs_nothing_else() -> None:
    config = EngineConfig(
        name="vllm",
        queued_requests_spec="vllm:num_requests_waiting",
        custom_metrics=[CustomMetricParameters(attribute_key="heat", metric_spec="gpu_heat")],
    )
    endpoint = endpoint_of()

    found = problems(LOAD, endpoint, extractor(engine_configs=[config]))

    assert (str(found), found.applied, found.count) == ("gpu_heat: missing", True, 1)
    assert endpoint.metrics.waiting_queue_size == 3


def test_specs_that_a_user_leaves_out_are_not_inherited() -> None:
    by = extractor(
        engine_configs=[
            EngineConfig(name="vllm", running_requests_spec="trtllm_num_requests_running")
        ]
    )
    endpoint = endpoint_of(waiting=1)

    read(LOAD + b"trtllm_num_requests_running 8\n", endpoint, by)

    assert numbers(endpoint.metrics)[:3] == (1, 8, 0.0)


class WatchedPage(bytes):
    """Knows how many of its bytes were searched."""

    searched = 0

    def find(self, wanted: Any, start: Any = 0, end: Any = None) -> int:
        end = len(self) if end is None else min(end, len(self))
        found = super().find(wanted, start, end)
        self.searched += (end if found < 0 else found) - start
        return found

    def rfind(self, wanted: Any, start: Any = 0, end: Any = None) -> int:
        end = len(self) if end is None else min(end, len(self))
        found = super().rfind(wanted, start, end)
        self.searched += end - (start if found < 0 else found)
        return found


@pytest.mark.parametrize(
    ("families", "whole_searches"),
    [(LOAD + LORA % (b"a", b"", b"4", b"1"), 0), (LOAD, 1)],
    ids=["all families", "without adapters"],
)
def test_the_whole_page_is_searched_only_for_what_was_not_there(
    families: bytes, whole_searches: int
) -> None:
    def page(number: int) -> WatchedPage:
        other = b"".join(b'x{le="%d"} 0\n' % bound for bound in range(1000)) + b"y %d\n" % number
        typed = b"".join(
            b"# TYPE %b gauge\n%b\n" % (re.split(rb"[{ ]", line)[0], line)
            for line in (families + CACHE_INFO).splitlines()
        )
        return WatchedPage(other + typed.replace(b" 3", b" %d" % number) + other)

    by, endpoint = extractor(), endpoint_of()
    read(page(9), endpoint, by)
    following = page(10)

    assert read(following, endpoint, by).waiting_queue_size == 10
    assert following.searched / len(following) == pytest.approx(whole_searches, abs=0.2)
