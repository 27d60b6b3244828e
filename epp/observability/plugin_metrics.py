"""Series that belong to plugins: made when a plugin is built, kept for the life of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from epp.framework.metric_specs import CounterSpec, GaugeSpec, HistogramSpec, MetricSpec
from epp.observability.deprecated_twins import TwinFamily
from epp.observability.exposition import Readable
from epp.observability.instruments import AnyFamily, Counter, Family, FamilySet, Gauge, Histogram

Reader = Callable[[], Mapping[tuple[str, ...], float]]


class PluginMetrics:
    """Families by name. A plugin that is built again goes on with the series it had."""

    def __init__(self, build: FamilySet, model_label: Callable[[str], str]) -> None:
        self._build = build
        self._families: dict[str, AnyFamily] = {}
        self._computed: dict[str, _ComputedFamily] = {}
        self.model_label = model_label

    def counter(self, spec: CounterSpec) -> Family[Counter]:
        """The family of counters `spec` describes."""
        family = self._families.get(spec.name)
        if family is None:
            family = self._families[spec.name] = self._build.counter(spec)
        return family  # type: ignore[return-value] # one kind for each name

    def gauge(self, spec: GaugeSpec) -> Family[Gauge]:
        """The family of gauges `spec` describes."""
        family = self._families.get(spec.name)
        if family is None:
            family = self._families[spec.name] = self._build.gauge(spec)
        return family  # type: ignore[return-value] # one kind for each name

    def histogram(self, spec: HistogramSpec) -> Family[Histogram]:
        """The family of histograms `spec` describes."""
        family = self._families.get(spec.name)
        if family is None:
            family = self._families[spec.name] = self._build.histogram(spec)
        return family  # type: ignore[return-value] # one kind for each name

    def computed(self, spec: GaugeSpec, owner: str, read: Reader) -> None:
        """Let `read` give the values that `owner` has of `spec`, in place of an earlier reader."""
        self._computed.setdefault(spec.name, _ComputedFamily(spec)).readers[owner] = read

    def forget(self, owner: str) -> None:
        """A plugin is gone: its computed gauges go with it."""
        for family in self._computed.values():
            family.readers.pop(owner, None)

    def families(self, *, deprecated_twins: bool) -> Iterator[Readable]:
        """Everything there is to write."""
        for family in self._families.values():
            yield family
            if deprecated_twins and family.spec.twin is not None:
                yield TwinFamily(family, family.spec.twin)
        yield from self._computed.values()


class _ComputedFamily:
    def __init__(self, spec: MetricSpec) -> None:
        self.spec = spec
        self.readers: dict[str, Reader] = {}

    def items(self) -> Iterator[tuple[tuple[str, ...], Gauge]]:
        underflows = Counter()
        for read in self.readers.values():
            for labels, value in read().items():
                gauge = Gauge(underflows)
                gauge.set(value)
                yield labels, gauge
