"""Puts what was measured into a page, between two markers, and its plot beside the page."""

from __future__ import annotations

from pathlib import Path

BEGIN = "<!-- tests.benchmarks.ext_proc writes from here ... -->\n"
END = "<!-- ... to here -->\n"


class Document:
    """A page that has the markers; raises ValueError where it has not."""

    def __init__(self, name: str) -> None:
        self._page = Path(name)
        self._parts()

    def put(self, text: str, plot: str) -> None:
        """Replace what is between the markers."""
        before, after = self._parts()
        drawing = self._page.with_suffix(".svg")
        drawing.write_text(plot)
        shown = f"![CPU per request, as bars]({drawing.name})"
        self._page.write_text(f"{before}{BEGIN}\n{text}\n\n{shown}\n\n{END}{after}")

    def _parts(self) -> tuple[str, str]:
        before, has_begin, rest = self._page.read_text().partition(BEGIN)
        _, has_end, after = rest.partition(END)
        if not (has_begin and has_end):
            markers = f"{BEGIN.strip()!r} and {END.strip()!r}"
            raise ValueError(f"{self._page}: must have the lines {markers}")
        return before, after
