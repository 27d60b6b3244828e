"""What a plugin is given while it is built, and what it declares meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from epp.framework.data import DataType, Input, Output

if TYPE_CHECKING:
    from epp.framework.metric_specs import CounterSpec, GaugeSpec, HistogramSpec
    from epp.framework.plugin import (
        CounterChild,
        GaugeChild,
        HistogramChild,
        MetricFamily,
    )
    from epp.observability.plugin_metrics import PluginMetrics

T = TypeVar("T")
P = TypeVar("P")

Reader = Callable[[], Mapping[tuple[str, ...], float]]


class HeldMetrics:
    """The process's metrics; gauges that are computed wait until the whole assembly stands.

    A configuration that is refused must not take the readers of the one in force away.
    """

    def __init__(self, metrics: PluginMetrics) -> None:
        self._metrics = metrics
        self._held: list[tuple[GaugeSpec, str, Reader]] = []
        self.model_label = metrics.model_label

    def counter(self, spec: CounterSpec) -> MetricFamily[CounterChild]:
        """A family of counters."""
        return self._metrics.counter(spec)

    def gauge(self, spec: GaugeSpec) -> MetricFamily[GaugeChild]:
        """A family of gauges."""
        return self._metrics.gauge(spec)

    def histogram(self, spec: HistogramSpec) -> MetricFamily[HistogramChild]:
        """A family of histograms."""
        return self._metrics.histogram(spec)

    def computed(self, spec: GaugeSpec, owner: str, read: Reader) -> None:
        """Keep a reader for `release`."""
        self._metrics.check_computed(spec)
        self._held.append((spec, owner, read))

    def release(self) -> None:
        """Hand the readers on."""
        for spec, owner, read in self._held:
            self._metrics.computed(spec, owner, read)
        self._held.clear()


class BuildContext:
    """A `PluginContext` that takes down what one plugin reads, writes and refers to."""

    def __init__(
        self,
        *,
        name: str,
        plugin_type: str,
        rng: random.Random,
        now: Callable[[], float],
        metrics: HeldMetrics,
        find: Callable[[str, type[Any], str], Any],
    ) -> None:
        self.name = name
        self.plugin_type = plugin_type
        self.rng = rng
        self.now = now
        self.metrics = metrics
        self.inputs: list[Input[Any]] = []
        self.outputs: list[Output[Any]] = []
        self.references: list[str] = []
        self._find = find

    def consumes(
        self, data_type: DataType[T], *, producer: str | None = None, required: bool = True
    ) -> Input[T]:
        """Read access that is bound once everything is built."""
        made = Input(data_type, producer=producer, required=required)
        self.inputs.append(made)
        return made

    def produces(self, data_type: DataType[T]) -> Output[T]:
        """Write access under the plugin's own name."""
        made = Output(data_type, self.name)
        self.outputs.append(made)
        return made

    def plugin(self, name: str, kind: type[P], *, field: str) -> P:
        """The instance `name`, built first if need be."""
        found: P = self._find(name, kind, field)
        self.references.append(name)
        return found
