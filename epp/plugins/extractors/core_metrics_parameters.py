"""Parameters of `core-metrics-extractor`, and the engine mappings they make."""

from __future__ import annotations

from collections import Counter

from pydantic import Field, model_validator

from epp.framework.plugin import Parameters
from epp.plugins.engine_labels import ENGINE_LABEL
from epp.plugins.extractors.engine_mappings import (
    Aggregation,
    CustomMetric,
    EngineMapping,
    block_size,
    built_in_mappings,
    signal,
)
from epp.plugins.extractors.series_spec import SeriesSpec, SeriesSpecText, parse_series_spec
from epp.plugins.extractors.signals import ANY, COUNT, RATIO, Combination, Kind, Signal

DEFAULT_MAPPING = "default"


class CustomMetricParameters(Parameters):
    """A number of the page that becomes an attribute of the endpoint."""

    attribute_key: str = Field(min_length=1, description="Name of the attribute.")
    metric_spec: SeriesSpecText = Field(min_length=1, description="Which series it is.")
    aggregation: Combination = Field(
        "first", description="What several series become: first, sum, mean or max."
    )


class EngineConfig(Parameters):
    """Where the pages of one engine say what; an empty spec: they do not."""

    name: str = Field(min_length=1, description="Value of the engine label.")
    queued_requests_spec: SeriesSpecText = Field("", description="Waiting requests.")
    running_requests_spec: SeriesSpecText = Field("", description="Running requests.")
    kv_usage_spec: SeriesSpecText = Field("", description="Share of the KV cache in use, 0 to 1.")
    lora_spec: SeriesSpecText = Field("", description="LoRA adapters, as labels.")
    cache_info_spec: SeriesSpecText = Field("", description="Size of the KV cache, as labels.")
    cache_block_size_label_name: str = Field(
        "block_size", min_length=1, description="Label of cacheInfoSpec with the tokens of a block."
    )
    cache_num_blocks_label_name: str = Field(
        "num_gpu_blocks",
        min_length=1,
        description="Label of cacheInfoSpec with the number of blocks.",
    )
    cache_block_size_spec: SeriesSpecText = Field("", description="Tokens of a block, as a value.")
    cache_num_blocks_spec: SeriesSpecText = Field("", description="Number of blocks, as a value.")
    custom_metrics: list[CustomMetricParameters] = Field(
        default_factory=list, description="Further numbers, kept as attributes of the endpoint."
    )
    aggregation: Aggregation | None = Field(
        None, description="As the parameter aggregation, for this engine."
    )

    @model_validator(mode="after")
    def _names_are_its_own(self) -> EngineConfig:
        if self.name == DEFAULT_MAPPING:
            raise ValueError("name 'default' is reserved: say defaultEngine, or name the engine")
        _refuse_repeated("attributeKey", [each.attribute_key for each in self.custom_metrics])
        return self

    def mapping(self, aggregation: Aggregation) -> EngineMapping:
        """What it says, with the aggregation of all engines if it has none."""
        how = self.aggregation or aggregation
        return EngineMapping(
            name=self.name,
            aggregation=how,
            waiting=_signal(self.queued_requests_spec, COUNT, how),
            running=_signal(self.running_requests_spec, COUNT, how),
            kv_usage=_signal(self.kv_usage_spec, RATIO, how),
            lora=_spec(self.lora_spec),
            cache_info=_spec(self.cache_info_spec),
            block_size_label=self.cache_block_size_label_name.encode(),
            num_blocks_label=self.cache_num_blocks_label_name.encode(),
            block_size=block_size(self.cache_block_size_spec)
            if self.cache_block_size_spec
            else None,
            num_blocks=_signal(self.cache_num_blocks_spec, COUNT, how),
            custom_metrics=tuple(
                CustomMetric(
                    attribute=custom.attribute_key,
                    signal=Signal(
                        specs=(parse_series_spec(custom.metric_spec),),
                        kind=ANY,
                        combination=custom.aggregation,
                    ),
                )
                for custom in self.custom_metrics
            ),
        )


class CoreMetricsParameters(Parameters):
    """Engines and how to tell them apart."""

    engine_label_key: str = Field(
        ENGINE_LABEL, min_length=1, description="Label of pods that names their engine."
    )
    default_engine: str = Field(
        "vllm", min_length=1, description="Engine of pods without the label or with an unknown one."
    )
    engine_configs: list[EngineConfig] = Field(
        default_factory=list,
        description="Further engines; a known name replaces the built-in one, all of it.",
    )
    aggregation: Aggregation = Field(
        "sum",
        description="Several series of a family: sum adds counts and averages shares, first takes"
        " the first.",
    )

    @model_validator(mode="after")
    def _engines_are_known(self) -> CoreMetricsParameters:
        _refuse_repeated("engineConfigs name", [each.name for each in self.engine_configs])
        known = self.mappings()
        if self.default_engine not in known:
            raise ValueError(
                f"defaultEngine {self.default_engine!r} is not an engine; allowed: "
                + ", ".join(sorted(known))
            )
        return self

    def mappings(self) -> dict[str, EngineMapping]:
        """All engines by name."""
        how = self.aggregation
        built_in = {mapping.name: mapping for mapping in built_in_mappings(how)}
        return built_in | {each.name: each.mapping(how) for each in self.engine_configs}


def _refuse_repeated(field: str, values: list[str]) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise ValueError(f"{field} {value!r} is there {count} times; allowed: 1")


def _spec(text: str) -> SeriesSpec | None:
    return parse_series_spec(text) if text else None


def _signal(text: str, kind: Kind, how: Aggregation) -> Signal | None:
    return signal(text, kind=kind, aggregation=how) if text else None
