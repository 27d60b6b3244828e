"""LoRA adapters of an engine: labels of the newest info series (datalayer §4.4)."""

from __future__ import annotations

from typing import NamedTuple

from epp.plugins.extractors.engine_mappings import ENGINE, EngineMapping
from epp.plugins.extractors.family_lines import FamilyLines
from epp.plugins.extractors.page_scanner import MAX_SERIES, Series, labels_of
from epp.plugins.extractors.series_spec import SeriesSpec
from epp.plugins.extractors.signal_reader import MAX_REMEMBERED

RUNNING = b"running_lora_adapters"
WAITING = b"waiting_lora_adapters"
MAX_LORA = b"max_lora"

_MAX_DIGITS = 9


class Adapters(NamedTuple):
    """What a page says; of `max_active` None: nothing, what was known stays."""

    active: frozenset[str]
    waiting: frozenset[str]
    max_active: int | None


class AdaptersReader:
    """Reads one endpoint's pages, parsing labels only when another series is the newest.

    Engines leave a series behind for every combination there has been; the value is the time it
    came up. Where the label `engine` tells several engines apart, each has a newest one, and they
    are put together: adapters as a union, their places as a sum.
    """

    def __init__(self, mapping: EngineMapping, spec: SeriesSpec) -> None:
        self._spec = spec
        self._family = FamilyLines(spec.needle)
        self._per_engine = mapping.aggregation == "sum"
        self._lines = b""
        self._label_sets: tuple[bytes, ...] = ()
        self._adapters: Adapters | None = None
        self._problems: list[str] = []

    def read(self, page: bytes, problems: list[str]) -> Adapters | None:
        """The adapters; None: the page does not say. What is wrong is added to `problems`."""
        lines = self._family.on(page)
        if not lines:
            return None
        if lines != self._lines:
            series = self._spec.select(lines)
            newest = self._newest(series)
            if not newest:
                return None
            self._take(tuple(one[0] for one in newest))
            is_whole = len(series) < MAX_SERIES
            if not is_whole:
                problems.append(f"{self._spec}: more than {MAX_SERIES - 1} series")
            self._lines = lines if is_whole and len(lines) <= MAX_REMEMBERED else b""
        problems += self._problems
        return self._adapters

    def _take(self, label_sets: tuple[bytes, ...]) -> None:
        if label_sets != self._label_sets:
            self._problems = []
            self._adapters = self._parsed(label_sets)
            self._label_sets = label_sets

    def _newest(self, series: list[Series]) -> list[Series]:
        kept: dict[bytes, Series] = {}
        for one in series:
            label_set, value, _ = one
            if not 0 <= value < float("inf"):
                continue
            engine = b""
            if self._per_engine and ENGINE in label_set:
                engine = labels_of(label_set).get(ENGINE, b"")
            held = kept.get(engine)
            if held is None or value > held[1]:
                kept[engine] = one
        return list(kept.values())

    def _parsed(self, label_sets: tuple[bytes, ...]) -> Adapters:
        active: set[str] = set()
        waiting: set[str] = set()
        places: list[int] = []
        for label_set in label_sets:
            labels = labels_of(label_set)
            active |= _names(labels.get(RUNNING, b""))
            waiting |= _names(labels.get(WAITING, b""))
            text = labels.get(MAX_LORA, b"").strip()
            if text.isdigit() and len(text) <= _MAX_DIGITS:
                places.append(int(text))
            elif text:
                self._problems.append(f"{self._spec}: label max_lora is not a whole number")
        return Adapters(frozenset(active), frozenset(waiting), sum(places) if places else None)


def _names(text: bytes) -> set[str]:
    names = text.decode(errors="replace").split(",")
    return {name.strip() for name in names if name.strip()}
