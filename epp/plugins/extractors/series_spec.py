"""Which series a configuration means: `name` or `name{label=value,other="value"}`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator

from epp.plugins.extractors.page_scanner import (
    Series,
    labels_of,
    needle_of,
    sample_lines,
    series_of,
)

ALLOWED = 'a metric name, or one with labels such as name{label="value"}'

_NAME = r"[A-Za-z_:][A-Za-z0-9_:]*"
_SPEC = re.compile(rf"\s*({_NAME})\s*(?:\{{([^{{}}]*)\}}\s*)?", re.ASCII)
_MATCHER = re.compile(
    r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?:"([^",{}]*)"|([^\s",{}=~][^\s",{}=]*(?:\s+[^\s",{}=]+)*))\s*',
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class SeriesSpec:
    """A family, and the labels that its wanted series have.

    An empty value is met by a series without the label too, as in Prometheus.
    """

    name: str
    labels: tuple[tuple[bytes, bytes], ...] = ()
    needle: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "needle", needle_of(self.name.encode()))

    def series_on(self, page: bytes) -> list[Series]:
        """The series on a page that have the labels."""
        lines = sample_lines(page, self.needle)
        return self.select(lines) if lines else []

    def select(self, lines: bytes) -> list[Series]:
        """The series among the sample lines of the family that have the labels."""
        series = series_of(lines, self.needle)
        return [one for one in series if self._is_met(one[0])] if self.labels else series

    def _is_met(self, label_set: bytes) -> bool:
        labels = labels_of(label_set)
        return all(labels.get(name, b"") == value for name, value in self.labels)

    def __str__(self) -> str:
        labels = ",".join(f'{name.decode()}="{value.decode()}"' for name, value in self.labels)
        return f"{self.name}{{{labels}}}" if labels else self.name


def parse_series_spec(text: str) -> SeriesSpec:
    """Read a spec; ValueError names it and what is allowed."""
    found = _SPEC.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a metric spec; allowed: {ALLOWED}")
    labels = {}
    for matcher in (found[2] or "").split(",") if (found[2] or "").strip() else ():
        label = _MATCHER.fullmatch(matcher)
        if label is None or label[1] in labels:
            raise ValueError(
                f"{text!r} is not a metric spec: {matcher.strip()!r}; allowed: {ALLOWED}"
            )
        labels[label[1]] = label[2] if label[2] is not None else label[3]
    return SeriesSpec(
        found[1], tuple((name.encode(), value.encode()) for name, value in labels.items())
    )


def _is_spec(text: str) -> str:
    if text:
        parse_series_spec(text)
    return text


SeriesSpecText = Annotated[str, AfterValidator(_is_spec)]
"""A spec in a plugin's parameters; empty: none."""
