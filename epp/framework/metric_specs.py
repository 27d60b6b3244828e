"""What is said of a metric once: name, labels, buckets, meaning, and the name it had before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """The name and labels under which a metric was known before.

    Summed over the labels of its source that are not in `keeps`.
    """

    name: str
    keeps: tuple[str, ...] = ()
    renamed: tuple[str, ...] | None = None
    """Names of the kept labels, where they differ."""

    @property
    def labels(self) -> tuple[str, ...]:
        return self.keeps if self.renamed is None else self.renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """What the catalogue says about a metric."""

    type: ClassVar[str]
    name: str
    help: str
    labels: tuple[str, ...] = ()
    expendable: tuple[str, ...] = ()
    """Labels that become `other` first when there are too many series; else all of them do."""
    twin: Twin | None = None

    @property
    def buckets(self) -> tuple[float, ...]:
        """Upper bounds, the infinite one left out; empty unless this is a histogram."""
        return ()


class CounterSpec(MetricSpec):
    """A metric that only grows."""

    __slots__ = ()
    type = "counter"


class GaugeSpec(MetricSpec):
    """A metric that goes up and down."""

    __slots__ = ()
    type = "gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramSpec(MetricSpec):
    """A metric that sorts observations into buckets."""

    type = "histogram"
    bounds: tuple[float, ...]

    @property
    def buckets(self) -> tuple[float, ...]:
        return self.bounds
