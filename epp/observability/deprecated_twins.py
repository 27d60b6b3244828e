"""Metrics under the names they had before, computed from their successors when asked for."""

from __future__ import annotations

from collections.abc import Iterator

from epp.framework.metric_specs import CounterSpec, GaugeSpec, HistogramSpec, MetricSpec, Twin
from epp.observability.instruments import AnyFamily, Counter, Gauge, Histogram


def twin_spec(spec: MetricSpec, twin: Twin) -> MetricSpec:
    """What the catalogue would say about the twin of `spec`."""
    text = f"[ALPHA] Deprecated, use {spec.name}. {spec.help.removeprefix('[ALPHA] ')}"
    if isinstance(spec, HistogramSpec):
        return HistogramSpec(name=twin.name, help=text, labels=twin.labels, bounds=spec.bounds)
    kind = CounterSpec if isinstance(spec, CounterSpec) else GaugeSpec
    return kind(name=twin.name, help=text, labels=twin.labels)


class TwinFamily:
    """Reads like a family; its series are sums over the labels the twin never had."""

    __slots__ = ("_kept", "_source", "spec")

    def __init__(self, source: AnyFamily, twin: Twin) -> None:
        self.spec = twin_spec(source.spec, twin)
        self._source = source
        self._kept = tuple(source.spec.labels.index(label) for label in twin.keeps)

    def items(self) -> Iterator[tuple[tuple[str, ...], Counter | Gauge | Histogram]]:
        """Every series with its label values, as of now."""
        return self._source.summed(self._kept)
