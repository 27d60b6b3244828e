"""Under which names the known engines report (datalayer §4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from epp.plugins.extractors.page_scanner import needle_of
from epp.plugins.extractors.series_spec import SeriesSpec, parse_series_spec
from epp.plugins.extractors.signals import COUNT, RATIO, Combination, Kind, Signal

Aggregation = Literal["sum", "first"]
"""What several series of a family mean: parts of one load (counts add up, shares are averaged), or
that only the first counts, as in the reference (decision 21)."""

RANK = b"dp_rank"
ENGINE = b"engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomMetric:
    """A number of the page that becomes an attribute of the endpoint."""

    attribute: str
    signal: Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMapping:
    """Where an engine's page says what; None: it does not."""

    name: str
    aggregation: Aggregation
    waiting: Signal | None = None
    running: Signal | None = None
    kv_usage: Signal | None = None
    lora: SeriesSpec | None = None
    """Adapters as labels, the value being the time."""
    cache_info: SeriesSpec | None = None
    """Size of the KV cache as labels."""
    block_size_label: bytes = b"block_size"
    num_blocks_label: bytes = b"num_gpu_blocks"
    block_size: Signal | None = None
    num_blocks: Signal | None = None
    custom_metrics: tuple[CustomMetric, ...] = ()

    @property
    def has_load(self) -> bool:
        """Whether it tells anything that changes with every request."""
        return (self.waiting or self.running or self.kv_usage) is not None


PAGE_PREFIXES: Mapping[str, bytes] = {
    "vllm": needle_of(b"vllm:"),
    "sglang": needle_of(b"sglang:"),
    "trtllm-serve": needle_of(b"trtllm_"),
    "triton-tensorrt-llm": needle_of(b"nv_trt_llm_"),
    "triton": needle_of(b"nv_inference_"),
}
"""What sample lines of an engine begin with; Triton's with a backend before those without."""


def signal(*specs: str, kind: Kind, aggregation: Aggregation, engine_label: bytes = b"") -> Signal:
    """A load signal of an engine."""
    combination: Combination = "mean" if kind is RATIO else "sum"
    return Signal(
        specs=tuple(map(parse_series_spec, specs)),
        kind=kind,
        combination=combination if aggregation == "sum" else "first",
        engine_label=engine_label,
    )


def block_size(*specs: str) -> Signal:
    """The tokens of a block, the same for all engines of a page."""
    return Signal(specs=tuple(map(parse_series_spec, specs)), kind=COUNT, combination="first")


def built_in_mappings(aggregation: Aggregation) -> Iterable[EngineMapping]:
    """The engines that are known without any configuration."""
    return (
        _vllm(aggregation),
        _sglang(aggregation),
        _trtllm_serve(aggregation),
        _triton_tensorrt_llm(aggregation),
        _triton(aggregation),
    )


def _vllm(how: Aggregation) -> EngineMapping:
    return EngineMapping(
        name="vllm",
        aggregation=how,
        waiting=signal("vllm:num_requests_waiting", kind=COUNT, aggregation=how),
        running=signal("vllm:num_requests_running", kind=COUNT, aggregation=how),
        # Renamed; pages of mid-2025 have both, and the new one is right.
        kv_usage=signal(
            "vllm:kv_cache_usage_perc",
            "vllm:gpu_cache_usage_perc",
            kind=RATIO,
            aggregation=how,
        ),
        lora=parse_series_spec("vllm:lora_requests_info"),
        cache_info=parse_series_spec("vllm:cache_config_info"),
    )


def _sglang(how: Aggregation) -> EngineMapping:
    # With priority scheduling the series of an empty priority is the total of the others. The
    # tensor and pipeline ranks of an engine all report the same numbers.
    return EngineMapping(
        name="sglang",
        aggregation=how,
        waiting=signal(
            'sglang:num_queue_reqs{priority=""}',
            kind=COUNT,
            aggregation=how,
            engine_label=RANK,
        ),
        running=signal(
            'sglang:num_running_reqs{priority=""}',
            kind=COUNT,
            aggregation=how,
            engine_label=RANK,
        ),
        kv_usage=signal(
            'sglang:token_usage{priority=""}', kind=RATIO, aggregation=how, engine_label=RANK
        ),
        cache_info=parse_series_spec("sglang:cache_config_info"),
        block_size_label=b"page_size",
        num_blocks_label=b"num_pages",
        # What newer versions have instead of the labels.
        block_size=block_size("sglang:page_size"),
        num_blocks=signal("sglang:num_pages", kind=COUNT, aggregation=how, engine_label=RANK),
    )


def _trtllm_serve(how: Aggregation) -> EngineMapping:
    return EngineMapping(
        name="trtllm-serve",
        aggregation=how,
        waiting=signal("trtllm_num_requests_waiting", kind=COUNT, aggregation=how),
        running=signal("trtllm_num_requests_running", kind=COUNT, aggregation=how),
        kv_usage=signal("trtllm_kv_cache_utilization", kind=RATIO, aggregation=how),
        block_size=block_size("trtllm_kv_cache_tokens_per_block"),
        num_blocks=signal("trtllm_kv_cache_max_blocks", kind=COUNT, aggregation=how),
    )


def _triton_tensorrt_llm(how: Aggregation) -> EngineMapping:
    requests = "nv_trt_llm_request_metrics{request_type=%s}"
    blocks = "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=%s}"
    return EngineMapping(
        name="triton-tensorrt-llm",
        aggregation=how,
        waiting=signal(requests % "waiting", kind=COUNT, aggregation=how),
        running=signal(requests % "scheduled", kind=COUNT, aggregation=how),
        kv_usage=signal(blocks % "fraction", kind=RATIO, aggregation=how),
        block_size=block_size(blocks % "tokens_per"),
        num_blocks=signal(blocks % "max", kind=COUNT, aggregation=how),
    )


def _triton(how: Aggregation) -> EngineMapping:
    # The reference reads nv_inference_exec_count as running requests: a counter that only grows
    # says which server is the oldest, not which is the busiest.
    return EngineMapping(
        name="triton",
        aggregation=how,
        waiting=signal("nv_inference_pending_request_count", kind=COUNT, aggregation=how),
    )
