"""Load, cache size and adapters of a model server, from its metrics page (datalayer §4)."""

from __future__ import annotations

from epp.framework.data import Output
from epp.framework.data_layer import METRICS_PAGE, ExtractionError, Extractor
from epp.framework.data_types import CORE_METRICS, endpoint_attribute
from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.plugin import PluginContext
from epp.plugins.extractors.cache_capacity import CapacityReader
from epp.plugins.extractors.core_metrics_parameters import CoreMetricsParameters
from epp.plugins.extractors.engine_choice import EngineChoice
from epp.plugins.extractors.engine_mappings import EngineMapping
from epp.plugins.extractors.lora_adapters import AdaptersReader
from epp.plugins.extractors.page_scanner import is_exposition
from epp.plugins.extractors.signal_reader import SignalReader
from epp.plugins.extractors.signals import Signal, required


class _Readers:
    """What reads the pages of one endpoint as one engine; remembers what rarely changes."""

    __slots__ = (
        "adapters",
        "capacity",
        "custom",
        "engines",
        "is_labelled",
        "kv_usage",
        "mapping",
        "running",
        "waiting",
    )

    def __init__(self, mapping: EngineMapping, *, is_labelled: bool, engines: EngineChoice) -> None:
        self.mapping = mapping
        self.engines = engines
        self.is_labelled = is_labelled
        self.waiting = _reader(mapping.waiting)
        self.running = _reader(mapping.running)
        self.kv_usage = _reader(mapping.kv_usage)
        self.capacity = CapacityReader(mapping)
        self.adapters = AdaptersReader(mapping, mapping.lora) if mapping.lora else None
        self.custom = [
            (each.attribute, SignalReader(each.signal)) for each in mapping.custom_metrics
        ]

    def load(
        self, page: bytes, problems: list[str]
    ) -> tuple[float | None, float | None, float | None] | None:
        """Waiting, running and KV-cache usage; None: nothing of these."""
        load = (
            required(self.waiting, page, problems),
            required(self.running, page, problems),
            required(self.kv_usage, page, problems),
        )
        return None if load == (None, None, None) else load


def _reader(signal: Signal | None) -> SignalReader | None:
    return SignalReader(signal) if signal else None


class CoreMetricsExtractor(Extractor):
    """Reads waiting and running requests, KV-cache usage and size, and LoRA adapters.

    A spec names a series: `name`, or `name{label=value,other="value"}` for those that have the
    labels; an empty value is met by series without the label, too. The engines that are known as if
    they were configured:

        engineConfigs:
        - name: vllm
          queuedRequestsSpec: vllm:num_requests_waiting
          runningRequestsSpec: vllm:num_requests_running
          kvUsageSpec: vllm:kv_cache_usage_perc  # or vllm:gpu_cache_usage_perc
          loraSpec: vllm:lora_requests_info
          cacheInfoSpec: vllm:cache_config_info
        - name: sglang
          queuedRequestsSpec: sglang:num_queue_reqs{priority=""}
          runningRequestsSpec: sglang:num_running_reqs{priority=""}
          kvUsageSpec: sglang:token_usage{priority=""}
          cacheInfoSpec: sglang:cache_config_info
          cacheBlockSizeLabelName: page_size
          cacheNumBlocksLabelName: num_pages
          cacheBlockSizeSpec: sglang:page_size
          cacheNumBlocksSpec: sglang:num_pages
        - name: trtllm-serve
          queuedRequestsSpec: trtllm_num_requests_waiting
          runningRequestsSpec: trtllm_num_requests_running
          kvUsageSpec: trtllm_kv_cache_utilization
          cacheBlockSizeSpec: trtllm_kv_cache_tokens_per_block
          cacheNumBlocksSpec: trtllm_kv_cache_max_blocks
        - name: triton-tensorrt-llm
          queuedRequestsSpec: nv_trt_llm_request_metrics{request_type=waiting}
          runningRequestsSpec: nv_trt_llm_request_metrics{request_type=scheduled}
          kvUsageSpec: nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}
          cacheBlockSizeSpec: nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}
          cacheNumBlocksSpec: nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}
        - name: triton
          queuedRequestsSpec: nv_inference_pending_request_count

    An entry of `engineConfigs` with one of these names replaces that engine whole, as in the
    reference: what it leaves out is read from nowhere. To add to an engine, copy its entry;
    only the built-in `sglang` counts ranks once that report for their whole engine.
    """

    type = "core-metrics-extractor"
    payload = METRICS_PAGE
    fills_metrics = True

    def __init__(self, parameters: CoreMetricsParameters, context: PluginContext) -> None:
        mappings = parameters.mappings()
        self._engines = EngineChoice(
            parameters.engine_label_key, mappings, parameters.default_engine
        )
        for data_type in CORE_METRICS:
            context.produces(data_type)
        attributes = [c.attribute for m in mappings.values() for c in m.custom_metrics]
        self._outputs: dict[str, Output[float]] = {
            name: context.produces(endpoint_attribute(name)) for name in dict.fromkeys(attributes)
        }
        # Beside the endpoint's attributes, so that it goes when the endpoint goes.
        self._readers_key = f"readers of {context.name}"

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        """Publish new metrics of the endpoint.

        A page that says nothing of the load does not make it fresh: a server that is starting
        shows its cache before its queues, and would look idle.
        """
        problems: list[str] = []
        readers = self._readers_of(endpoint)
        load = readers.load(payload, problems)
        if load is None:
            problems.clear()
            readers = self._readers_shown(payload, endpoint, readers)
            load = readers.load(payload, problems)
        is_fresh = self._publish(payload, endpoint, readers, load, now, problems)
        if problems:
            raise ExtractionError("; ".join(problems[:8]), applied=is_fresh, count=len(problems))
        return is_fresh

    def engine_of(self, endpoint: Endpoint) -> EngineMapping:
        """The engine that the endpoint's pages are read as."""
        return self._readers_of(endpoint).mapping

    def _readers_of(self, endpoint: Endpoint) -> _Readers:
        """The readers of last time, unless the label or the configuration has changed."""
        held: _Readers | None = endpoint.state.attributes.get(self._readers_key)
        mapping = self._engines.labelled(endpoint)
        if held is not None and held.engines is self._engines:
            is_still_so = held.mapping is mapping if mapping else not held.is_labelled
            if is_still_so:
                return held
        return self._remember(
            endpoint, mapping or self._engines.default, is_labelled=mapping is not None
        )

    def _readers_shown(self, page: bytes, endpoint: Endpoint, readers: _Readers) -> _Readers:
        """Readers for a page without the load of the engine that was expected."""
        if not is_exposition(page):
            raise ExtractionError("not a page of metrics", applied=False)
        if readers.is_labelled or not readers.mapping.has_load:
            return readers
        mapping = self._engines.shown(page, endpoint) or self._engines.default
        if mapping is readers.mapping:
            return readers
        return self._remember(endpoint, mapping, is_labelled=False)

    def _remember(
        self, endpoint: Endpoint, mapping: EngineMapping, *, is_labelled: bool
    ) -> _Readers:
        readers = _Readers(mapping, is_labelled=is_labelled, engines=self._engines)
        endpoint.state.attributes[self._readers_key] = readers
        return readers

    def _publish(
        self,
        page: bytes,
        endpoint: Endpoint,
        readers: _Readers,
        load: tuple[float | None, float | None, float | None] | None,
        now: float,
        problems: list[str],
    ) -> bool:
        custom = bool(readers.custom) and self._publish_custom(page, endpoint, readers, problems)
        adapters = readers.adapters.read(page, problems) if readers.adapters else None
        size, blocks = readers.capacity.read(page, problems)
        old = endpoint.state.metrics
        is_known = adapters is not None or size is not None or blocks is not None
        is_fresh = load is not None or (not readers.mapping.has_load and (is_known or custom))
        if not is_fresh and not is_known:
            return False
        waiting, running, usage = load or (None, None, None)
        most = adapters.max_active if adapters is not None else None
        endpoint.state.metrics = EndpointMetrics(
            waiting_queue_size=old.waiting_queue_size if waiting is None else int(waiting),
            running_requests_size=old.running_requests_size if running is None else int(running),
            kv_cache_usage=old.kv_cache_usage if usage is None else usage,
            active_models=old.active_models if adapters is None else adapters.active,
            waiting_models=old.waiting_models if adapters is None else adapters.waiting,
            max_active_models=old.max_active_models if most is None else most,
            cache_block_size=old.cache_block_size if size is None else size,
            cache_num_blocks=old.cache_num_blocks if blocks is None else blocks,
            updated_at=now if is_fresh else old.updated_at,
        )
        return is_fresh

    def _publish_custom(
        self, page: bytes, endpoint: Endpoint, readers: _Readers, problems: list[str]
    ) -> bool:
        is_any = False
        for attribute, reader in readers.custom:
            # Absent it keeps its old value, as in the reference; a mistyped name has to be told.
            value = required(reader, page, problems)
            if value is not None:
                self._outputs[attribute].put_on(endpoint, value)
                is_any = True
        return is_any
