"""Whether what PromQL reads exists: the names and labels of everything a picker shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from epp.config.descriptions import describe
from epp.config.plugin_registry import PluginRegistry
from epp.framework.metric_specs import CounterSpec, HistogramSpec, MetricSpec
from epp.observability.deprecated_twins import twin_spec
from epp.observability.metric_catalogue import CATALOGUE
from epp.observability.metrics import Metrics
from tests.fakes.metrics.promql import Expression, Selector
from tests.fakes.metrics.samples import page

OF_THE_SCRAPE = {"namespace", "job", "instance", "pod"}
"""Labels that every series gets from Prometheus."""
OF_PROMETHEUS = {"ALERTS": {"alertname", "alertstate", "severity"}}
"""Series that it writes itself, with their labels."""


@cache
def specs() -> Mapping[str, MetricSpec]:
    """Every metric by name, those of bundled plugins and former names included."""
    registry = PluginRegistry()
    own = [spec for section in CATALOGUE for spec in section.metrics]
    of_plugins = [spec for each in registry.types() for spec in describe(each, registry).metrics]
    found = {spec.name: spec for spec in (*own, *of_plugins)}
    twins = [twin_spec(spec, spec.twin) for spec in found.values() if spec.twin is not None]
    return found | {twin.name: twin for twin in twins}


@cache
def process_series() -> frozenset[str]:
    """Names that prometheus_client gives the process."""
    return frozenset(re.findall(r"^(process_\w+) ", page(Metrics()), re.M))


def spec_of(series: str) -> MetricSpec | None:
    """The metric that a series belongs to; a histogram is never read without its suffix."""
    spec = specs().get(series)
    if spec is not None:
        return None if isinstance(spec, HistogramSpec) else spec
    name, _, part = series.rpartition("_")
    spec = specs().get(name)
    known = isinstance(spec, HistogramSpec) and part in {"bucket", "sum", "count"}
    return spec if known else None


def labels_of(series: str) -> set[str]:
    spec = spec_of(series)
    bucket = {"le"} if series.endswith("_bucket") else set()
    own = set(spec.labels) if spec is not None else OF_PROMETHEUS.get(series, set())
    return OF_THE_SCRAPE | bucket | own


def faults_of(selector: Selector) -> Iterator[str]:
    name = selector.metric
    spec = spec_of(name)
    if spec is None and name not in process_series() | OF_PROMETHEUS.keys():
        yield f"there is no {name}"
        return
    if unknown := selector.labels - labels_of(name):
        yield f"{name} has no {', '.join(sorted(unknown))}"
    grows = isinstance(spec, CounterSpec | HistogramSpec) or name.endswith("_total")
    if selector.is_rate and not grows:
        yield f"{name} is no counter, its rate says nothing"
    if selector.is_rate and not selector.has_range:
        yield f"{name} needs a range"


def faults_in(expression: Expression) -> list[str]:
    found = [fault for selector in expression.selectors for fault in faults_of(selector)]
    known = {"le"}.union(*(labels_of(selector.metric) for selector in expression.selectors))
    if unknown := expression.grouping - known:
        found.append(f"grouped by {', '.join(sorted(unknown))}, which nothing has")
    return found
