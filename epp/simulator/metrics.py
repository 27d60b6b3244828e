"""The `/metrics` page, with the families of vLLM v1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from epp.simulator.counters import TTFT_BUCKETS
from epp.simulator.engine import Engine
from epp.simulator.settings import SimulatorSettings


class MetricsPage:
    """Renders what an engine is doing now."""

    def __init__(self, engine: Engine, settings: SimulatorSettings) -> None:
        self._registry = CollectorRegistry()
        GCCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        ProcessCollector(registry=self._registry)
        self._registry.register(_EngineCollector(engine, settings))

    def render(self) -> bytes:
        """The page in the text format."""
        return generate_latest(self._registry)


class _EngineCollector(Collector):
    def __init__(self, engine: Engine, settings: SimulatorSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._names = ("engine", "model_name")
        self._values = ("0", settings.model_names[0])

    def collect(self) -> Iterable[Metric]:
        yield from self._gauges()
        yield from self._counters()
        yield self._ttft()
        if self._settings.lora_modules:
            yield self._lora_requests_info()

    def _gauges(self) -> Iterator[Metric]:
        engine = self._engine
        for name, text, value in (
            ("num_requests_running", "Number of requests that run.", engine.running),
            ("num_requests_waiting", "Number of requests that wait.", engine.waiting),
            ("gpu_cache_usage_perc", "Former name of kv_cache_usage_perc.", engine.cache.usage),
            ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent.", engine.cache.usage),
        ):
            family = GaugeMetricFamily(f"vllm:{name}", text, labels=self._names)
            family.add_metric(self._values, value)
            yield family
        yield self._cache_config_info()

    def _counters(self) -> Iterator[Metric]:
        counters = self._engine.counters
        for name, text, value in (
            ("prefix_cache_queries", "Prompt tokens looked up.", counters.prefix_cache_queries),
            ("prefix_cache_hits", "Prompt tokens found in the cache.", counters.prefix_cache_hits),
            ("num_preemptions", "Preemptions; a simulator has none.", 0),
            ("prompt_tokens", "Prompt tokens processed.", counters.prompt_tokens),
            ("generation_tokens", "Tokens generated.", counters.generation_tokens),
        ):
            family = CounterMetricFamily(f"vllm:{name}", text, labels=self._names)
            family.add_metric(self._values, value)
            yield family
        finished = CounterMetricFamily(
            "vllm:request_success",
            "Requests by the reason they ended.",
            labels=(*self._names, "finished_reason"),
        )
        for reason, count in counters.finished.items():
            finished.add_metric((*self._values, reason), count)
        yield finished

    def _ttft(self) -> Metric:
        counters = self._engine.counters
        bounds = [*map(str, TTFT_BUCKETS), "+Inf"]
        family = HistogramMetricFamily(
            "vllm:time_to_first_token_seconds", "Time to first token.", labels=self._names
        )
        family.add_metric(
            self._values,
            list(zip(bounds, accumulate(counters.ttft_counts), strict=True)),
            counters.ttft_sum,
        )
        return family

    def _cache_config_info(self) -> Metric:
        settings = self._settings
        labels = {
            "block_size": str(settings.block_size),
            "cache_dtype": "auto",
            "enable_prefix_caching": str(settings.enable_prefix_caching),
            "engine": "0",
            "gpu_memory_utilization": "0.9",
            "kv_cache_size_tokens": str(settings.kv_cache_size * settings.block_size),
            "num_cpu_blocks": "None",
            "num_gpu_blocks": str(settings.kv_cache_size),
            "num_gpu_blocks_override": "None",
            "sliding_window": "None",
        }
        family = GaugeMetricFamily("vllm:cache_config_info", "KV-cache.", labels=tuple(labels))
        family.add_metric(tuple(labels.values()), 1)
        return family

    def _lora_requests_info(self) -> Metric:
        family = GaugeMetricFamily(
            "vllm:lora_requests_info",
            "Running and waiting adapters; the value is the time they came up.",
            labels=("max_lora", "running_lora_adapters", "waiting_lora_adapters"),
        )
        for (running, waiting), unix_time in self._engine.adapters.series.items():
            family.add_metric((str(self._settings.max_loras), running, waiting), unix_time)
        return family
