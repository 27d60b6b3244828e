"""Engine configurations that take the place of a built-in engine and say less than it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from epp.config.findings import Findings, listed
from epp.config.instances import Instance
from epp.config.wiring import Link
from epp.framework.data_types import (
    KV_CACHE_USAGE_PERCENT,
    RUNNING_REQUESTS_SIZE,
    WAITING_QUEUE_SIZE,
)
from epp.plugins.extractors.core_metrics_parameters import CoreMetricsParameters, EngineConfig
from epp.plugins.extractors.engine_mappings import EngineMapping, built_in_mappings
from epp.plugins.extractors.signals import Signal


def warn_of_replaced_engines(
    instances: Iterable[Instance], links: Sequence[Link], findings: Findings
) -> None:
    """Tell which load is read from nowhere though a plugin goes by it, and what would read it."""
    for instance in instances:
        parameters = instance.parameters
        if not isinstance(parameters, CoreMetricsParameters):
            continue
        built_in = {each.name: each for each in built_in_mappings(parameters.aggregation)}
        for index, engine in enumerate(parameters.engine_configs):
            if engine.name not in built_in:
                continue
            path = f"{instance.where}.parameters.engineConfigs[{index}]"
            for text in _losses(engine, built_in[engine.name], _readers(links)):
                findings.warning(path, text)


def _readers(links: Sequence[Link]) -> Mapping[str, list[str]]:
    """Names of plugins by the data they read."""
    readers: dict[str, list[str]] = {}
    for link in links:
        readers.setdefault(link.input.data_type.name, []).append(link.reader.name)
    return readers


def _losses(
    engine: EngineConfig, replaced: EngineMapping, readers: Mapping[str, list[str]]
) -> Iterator[str]:
    load: Sequence[tuple[str, str, Signal | None, str]] = (
        (
            "queuedRequestsSpec",
            engine.queued_requests_spec,
            replaced.waiting,
            WAITING_QUEUE_SIZE.name,
        ),
        (
            "runningRequestsSpec",
            engine.running_requests_spec,
            replaced.running,
            RUNNING_REQUESTS_SIZE.name,
        ),
        ("kvUsageSpec", engine.kv_usage_spec, replaced.kv_usage, KV_CACHE_USAGE_PERCENT.name),
    )
    for field, given, before, data in load:
        if before is not None and not given and data in readers:
            yield (
                f"{engine.name!r} replaces the built-in engine whole; without {field} it tells"
                f" {listed(readers[data])} nothing. To keep that, add"
                f" {field}: '{before.specs[0]}'"
            )
