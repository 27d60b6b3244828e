"""A signal on the pages of one endpoint: of what it read last only what changed is read again."""

from __future__ import annotations

from epp.plugins.extractors.family_lines import FamilyLines
from epp.plugins.extractors.page_scanner import has_sample
from epp.plugins.extractors.series_spec import SeriesSpec
from epp.plugins.extractors.signals import Signal

MAX_REMEMBERED = 65_536
"""Bytes of unchanged lines that are kept for one endpoint."""

_UNDERSCORE = ord("_")


class SignalReader:
    """Reads what `Signal.read` does, from one page after the other."""

    __slots__ = ("_families", "_head", "_lines", "_signal", "_value", "specs")

    def __init__(self, signal: Signal) -> None:
        self.specs = signal.specs
        self._signal = signal
        self._families = [(spec, FamilyLines(spec.needle)) for spec in signal.specs]
        self._lines = b""
        self._value: float | None = None
        self._head = b""
        """Name and labels of the line, if it was the family's only one."""

    def read(self, page: bytes, problems: list[str]) -> float | None:
        """The number on the next page: see `NumberReader`."""
        for spec, family in self._families:
            lines = family.on(page)
            if not lines:
                continue
            if lines == self._lines:
                return self._value
            value = self._only_number(lines, spec)
            if value is None:
                series = spec.select(lines)
                if not series:
                    continue
                before = len(problems)
                value = self._signal.combined(series, spec, problems)
                if value is None or len(problems) > before:
                    return value
                self._head = _head_of(lines, spec.needle + series[0][0], spec.needle)
            self._lines = lines if len(lines) <= MAX_REMEMBERED else b""
            self._value = value
            return value
        return None

    def _only_number(self, lines: bytes, spec: SeriesSpec) -> float | None:
        """The number, if the family has one line as before and that is a usual one."""
        head = self._head
        if not head or not lines.startswith(head):
            return None
        end = lines.find(b"\n", len(head))
        if end < 0:
            text = lines[len(head) :]
        elif has_sample(lines[end:], spec.needle):
            return None
        else:
            text = lines[len(head) : end]
        try:
            value = float(text)
        except ValueError:
            return None
        lowest, _, full = self._signal.kind
        return value if lowest <= value <= full and _UNDERSCORE not in text else None


def _head_of(lines: bytes, head: bytes, needle: bytes) -> bytes:
    """`head`, if the only line of the family begins with it."""
    is_only = lines.startswith(head) and not has_sample(lines[len(head) :], needle)
    return head if is_only and len(head) <= MAX_REMEMBERED else b""
