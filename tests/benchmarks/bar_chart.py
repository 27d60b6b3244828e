"""Horizontal bars as SVG, which any page can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from statistics import median

_COLOURS = ("#2b6cb0", "#dd8452", "#55a868", "#8172b3")
_BAR, _GAP, _LEFT, _WIDTH, _TOP = 13, 10, 170, 480, 50
"""Pixels."""


def bar_chart(
    title: str, series: Sequence[str], bars: Mapping[str, Sequence[Sequence[float]]]
) -> str:
    """A group of bars for each entry, one per series, as long as its median."""
    longest = max(median(values) for group in bars.values() for values in group)
    parts = list(_legend(title, series))
    y = _TOP
    for label, group in bars.items():
        middle = y + len(group) * _BAR / 2 + 4
        parts.append(f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end">{escape(label)}</text>')
        for number, values in enumerate(group):
            parts += _bar(y, number, median(values), longest)
            y += _BAR
        y += _GAP
    size = f'width="{_LEFT + _WIDTH + 70}" height="{y}"'
    style = "font: 12px sans-serif"
    background = '<rect width="100%" height="100%" fill="white"/>'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{style}">'
    return "\n".join([start, background, *parts, "</svg>", ""])


def _legend(title: str, series: Sequence[str]) -> Iterator[str]:
    yield f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>'
    for number, name in enumerate(series):
        x = _LEFT + number * 110
        yield f'<rect x="{x}" y="26" width="10" height="10" fill="{_colour(number)}"/>'
        yield f'<text x="{x + 15}" y="35">{escape(name)}</text>'


def _bar(y: int, number: int, value: float, longest: float) -> Iterator[str]:
    width = max(value, 0) / longest * _WIDTH
    yield (
        f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}"'
        f' fill="{_colour(number)}"/>'
    )
    yield f'<text x="{_LEFT + width + 5:.1f}" y="{y + 10}" font-size="10">{value:,.0f}</text>'


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]
