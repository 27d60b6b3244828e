"""Series that belong to plugins: made when a plugin is built, kept for the life of the process."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import TypeVar

import structlog

from epp.framework.errors import ConfigError
from epp.framework.metric_specs import CounterSpec, GaugeSpec, HistogramSpec, MetricSpec
from epp.observability.deprecated_twins import TwinFamily
from epp.observability.exposition import Readable
from epp.observability.instruments import AnyFamily, Counter, Family, FamilySet, Gauge, Histogram
from epp.support.plugin_faults import PLUGIN_FAULTS

log = structlog.get_logger(__name__)

Reader = Callable[[], Mapping[tuple[str, ...], float]]
Spec = TypeVar("Spec", bound=MetricSpec)

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class PluginMetrics:
    """Families by name. A plugin that is built again goes on with the series it had.

    One name that Prometheus refuses, or that is there twice, would cost the whole page: such specs
    are a `ConfigError`.
    """

    def __init__(
        self, build: FamilySet, model_label: Callable[[str], str], taken: Container[str] = ()
    ) -> None:
        """`taken` are the names of the process's own metrics."""
        self._build = build
        self._taken = taken
        self._families: dict[str, AnyFamily] = {}
        self._computed: dict[str, _ComputedFamily] = {}
        self.model_label = model_label

    def counter(self, spec: CounterSpec) -> Family[Counter]:
        """The family of counters `spec` describes."""
        return self._family(spec, self._build.counter)  # type: ignore[return-value] # same spec

    def gauge(self, spec: GaugeSpec) -> Family[Gauge]:
        """The family of gauges `spec` describes."""
        return self._family(spec, self._build.gauge)  # type: ignore[return-value] # same spec

    def histogram(self, spec: HistogramSpec) -> Family[Histogram]:
        """The family of histograms `spec` describes."""
        return self._family(spec, self._build.histogram)  # type: ignore[return-value] # same spec

    def computed(self, spec: GaugeSpec, owner: str, read: Reader) -> None:
        """Let `read` give the values that `owner` has of `spec`, in place of an earlier reader."""
        self.check_computed(spec)
        self._computed.setdefault(spec.name, _ComputedFamily(spec)).readers[owner] = read

    def check_computed(self, spec: GaugeSpec) -> None:
        """Raise `ConfigError` if `computed` would."""
        if spec.name not in self._computed:
            self._check(spec)

    def forget(self, owner: str) -> None:
        """A plugin is gone: its computed gauges go with it."""
        for family in self._computed.values():
            family.readers.pop(owner, None)

    def families(self, *, deprecated_twins: bool) -> Iterator[Readable]:
        """Everything there is to write; what is added meanwhile is left out."""
        for family in tuple(self._families.values()):
            yield family
            if deprecated_twins and family.spec.twin is not None:
                yield TwinFamily(family, family.spec.twin)
        yield from tuple(self._computed.values())

    def _family(self, spec: Spec, make: Callable[[Spec], AnyFamily]) -> AnyFamily:
        family = self._families.get(spec.name)
        if family is None:
            self._check(spec)
            family = self._families[spec.name] = make(spec)
        elif family.spec != spec or type(family.spec) is not type(spec):
            raise ConfigError(f"metric {spec.name!r} is described otherwise by another plugin")
        return family

    def _check(self, spec: MetricSpec) -> None:
        if _NAME.fullmatch(spec.name) is None:
            raise ConfigError(f"metric {spec.name!r}: a name is letters, digits, _ and :")
        for label in spec.labels:
            if _LABEL.fullmatch(label) is None:
                raise ConfigError(f"metric {spec.name}: label {label!r}: letters, digits and _")
        for label in spec.expendable:
            if label not in spec.labels:
                raise ConfigError(
                    f"metric {spec.name}: expendable {label!r} is not one of its labels"
                    f" {', '.join(spec.labels)}"
                )
        if spec.name in self._taken or spec.name in self._families or spec.name in self._computed:
            raise ConfigError(f"metric {spec.name!r} is there already")


class _ComputedFamily:
    def __init__(self, spec: MetricSpec) -> None:
        self.spec = spec
        self.readers: dict[str, Reader] = {}
        self._faulty: set[str] = set()

    def items(self) -> Iterator[tuple[tuple[str, ...], Gauge]]:
        underflows = Counter()
        for owner, read in tuple(self.readers.items()):
            for labels, value in self._read(owner, read):
                gauge = Gauge(underflows)
                gauge.set(value)
                yield labels, gauge

    def _read(self, owner: str, read: Reader) -> list[tuple[tuple[str, ...], float]]:
        """What a plugin says; a fault of it must not cost the page."""
        try:
            found = [(_texts(labels), float(value)) for labels, value in read().items()]
            if any(len(labels) != len(self.spec.labels) for labels, _ in found):
                raise ValueError(f"labels are {self.spec.labels}")
        except PLUGIN_FAULTS as error:
            if owner not in self._faulty:
                self._faulty.add(owner)
                log.error("gauge of a plugin failed", plugin=owner, exc_info=error)
            return []
        return found


def _texts(labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([str(label) for label in labels])
