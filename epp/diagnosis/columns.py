"""Rows of cells as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from epp.support.safe_text import printable

_MOST_CELL = 300


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows, each column as wide as its widest cell; whatever is in them is made plain."""
    cells = [[printable(cell, _MOST_CELL) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(padded).rstrip()
