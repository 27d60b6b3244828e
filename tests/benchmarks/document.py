"""Puts what was measured into a page, between two markers, and its plot beside the page."""

from __future__ import annotations

from pathlib import Path

BEGIN = "<!-- tests.benchmarks.ext_proc writes from here ... -->\n"
END = "<!-- ... to here -->\n"


def put_into(page: Path, text: str, plot: str) -> None:
    """Replace what is between the markers; raises ValueError where they are missing."""
    before, has_begin, rest = page.read_text().partition(BEGIN)
    _, has_end, after = rest.partition(END)
    if not (has_begin and has_end):
        raise ValueError(f"{page}: must have the lines {BEGIN.strip()!r} and {END.strip()!r}")
    drawing = page.with_suffix(".svg")
    drawing.write_text(plot)
    shown = f"![CPU per request, as bars]({drawing.name})"
    page.write_text(f"{before}{BEGIN}\n{text}\n\n{shown}\n\n{END}{after}")
