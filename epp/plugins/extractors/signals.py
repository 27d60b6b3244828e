"""One number per signal: its series on a page, checked and combined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from epp.plugins.extractors.page_scanner import MAX_SERIES, Series, labels_of
from epp.plugins.extractors.series_spec import SeriesSpec

Combination = Literal["first", "sum", "mean", "max"]
"""How several series become one number. `first`: that of the newest timestamp, else the first
on the page."""


class Kind(NamedTuple):
    """Which numbers are believed: from `lowest` to `highest`, those above `full` being read as it.

    `highest` keeps the sum of a family finite.
    """

    lowest: float
    highest: float
    full: float


COUNT = Kind(0.0, 2.0**53, 2.0**53)
RATIO = Kind(0.0, 1e300, 1.0)
ANY = Kind(-1e300, 1e300, 1e300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Something that an engine reports as the value of a series."""

    specs: tuple[SeriesSpec, ...]
    """Names it has had, the preferred one first; the first that is on the page is read."""
    kind: Kind
    combination: Combination
    engine_label: bytes = b""
    """Label that tells engines of one page apart, where every rank of an engine reports the same
    number; empty: all series are different things."""

    def read(self, page: bytes, problems: list[str]) -> float | None:
        """The number on a page: see `NumberReader`."""
        for spec in self.specs:
            if series := spec.series_on(page):
                return self.combined(series, spec, problems)
        return None

    def combined(self, series: list[Series], spec: SeriesSpec, problems: list[str]) -> float | None:
        """The number that these series of a family are."""
        lowest, highest, full = self.kind
        if len(series) == 1 and lowest <= series[0][1] <= full:
            return series[0][1]
        usable = [one for one in series if lowest <= one[1] <= highest]
        if len(usable) < len(series):
            problems.append(f"{spec}: not a usable number")
            if not usable:
                return None
        if len(series) >= MAX_SERIES:
            problems.append(f"{spec}: more than {MAX_SERIES - 1} series")
        value = self._combine(usable)
        if value > full:
            problems.append(f"{spec}: more than {full:g}, read as that")
            return full
        return value

    def _combine(self, usable: list[Series]) -> float:
        if len(usable) == 1:
            return usable[0][1]
        if self.combination == "first":
            return newest(usable)[1]
        values = [one[1] for one in distinct(usable, self.engine_label)]
        if self.combination == "max":
            return max(values)
        return sum(values) / (len(values) if self.combination == "mean" else 1)


class NumberReader(Protocol):
    """A signal, or what reads it from pages of one endpoint."""

    @property
    def specs(self) -> tuple[SeriesSpec, ...]:
        """Names of the signal, the preferred one first."""

    def read(self, page: bytes, problems: list[str]) -> float | None:
        """The number; None: it is not there. What is wrong with it is added to `problems`."""


def required(signal: NumberReader | None, page: bytes, problems: list[str]) -> float | None:
    """The number of a signal, if there is such a signal; its absence is a problem."""
    if signal is None:
        return None
    before = len(problems)
    value = signal.read(page, problems)
    if value is None and len(problems) == before:
        problems.append(f"{signal.specs[0]}: missing")
    return value


def newest(series: Iterable[Series]) -> Series:
    """The series with the largest timestamp, the first of equals."""
    return max(series, key=lambda one: one[2])


def distinct(series: Iterable[Series], engine_label: bytes) -> list[Series]:
    """One series per label set, or per value of `engine_label`; a series may be there twice."""
    kept: dict[bytes, Series] = {}
    for one in series:
        key = labels_of(one[0]).get(engine_label, b"") if engine_label else one[0]
        held = kept.get(key)
        if held is None or one[2] > held[2]:
            kept[key] = one
    return list(kept.values())
