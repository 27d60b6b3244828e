"""Size of a KV cache: labels of an info series, or values of their own (datalayer §4.4)."""

from __future__ import annotations

import math
from typing import NamedTuple

from epp.plugins.extractors.engine_mappings import EngineMapping
from epp.plugins.extractors.family_lines import FamilyLines
from epp.plugins.extractors.page_scanner import labels_of
from epp.plugins.extractors.series_spec import SeriesSpec
from epp.plugins.extractors.signal_reader import MAX_REMEMBERED, SignalReader
from epp.plugins.extractors.signals import distinct, newest

_MAX_DIGITS = 15


class Capacity(NamedTuple):
    """What a page says; None: nothing, what was known stays."""

    block_size: int | None
    num_blocks: int | None


NOTHING = Capacity(None, None)


class CapacityReader:
    """Reads one endpoint's pages, parsing the info series only when it has changed."""

    def __init__(self, mapping: EngineMapping) -> None:
        self._mapping = mapping
        self._info = FamilyLines(mapping.cache_info.needle) if mapping.cache_info else None
        self._block_size = SignalReader(mapping.block_size) if mapping.block_size else None
        self._num_blocks = SignalReader(mapping.num_blocks) if mapping.num_blocks else None
        self._lines = b""
        self._capacity = NOTHING
        self._problems: list[str] = []

    def read(self, page: bytes, problems: list[str]) -> Capacity:
        """Block size and number of blocks; what is wrong is added to `problems`."""
        size, blocks = NOTHING
        if self._info is not None:
            size, blocks = self._read_labels(self._info.on(page), problems)
        if not size and self._block_size is not None:
            size = _whole(self._block_size.read(page, problems), size)
        if blocks is None and self._num_blocks is not None:
            blocks = _whole(self._num_blocks.read(page, problems), blocks)
        return Capacity(size, blocks)

    def _read_labels(self, lines: bytes, problems: list[str]) -> Capacity:
        if lines != self._lines:
            self._problems = []
            self._capacity = self._parsed(lines)
            self._lines = lines if len(lines) <= MAX_REMEMBERED else b""
        elif not lines:
            return NOTHING
        problems += self._problems
        return self._capacity

    def _parsed(self, lines: bytes) -> Capacity:
        spec = self._mapping.cache_info
        assert spec is not None
        selected = spec.select(lines) if lines else []
        series = [one for one in selected if not math.isnan(one[1])]
        if len(series) < len(selected):
            self._problems.append(f"{spec}: not a usable number")
        if not series:
            return NOTHING
        mapping = self._mapping
        first = labels_of(newest(series)[0])
        engines = (
            [labels_of(one[0]) for one in distinct(series, b"")]
            if mapping.aggregation == "sum"
            else [first]
        )
        # Without the label the size is reset: the page says nothing of it any more (D10).
        size = self._number(first, mapping.block_size_label, spec) or 0
        blocks = [self._number(labels, mapping.num_blocks_label, spec) for labels in engines]
        known = [number for number in blocks if number is not None]
        return Capacity(size, sum(known) if known else None)

    def _number(self, labels: dict[bytes, bytes], name: bytes, spec: SeriesSpec) -> int | None:
        text = labels.get(name, b"").strip()
        if not text:
            return None
        if text.isdigit() and len(text) <= _MAX_DIGITS:
            return int(text)
        self._problems.append(f"{spec}: label {name.decode()} is not a whole number")
        return None


def _whole(value: float | None, otherwise: int | None) -> int | None:
    return otherwise if value is None else int(value)
