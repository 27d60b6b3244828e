from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.document import BEGIN, END, Document


def test_what_was_measured_replaces_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"# Title\n\n{BEGIN}old\n{END}\nThe rest.\n")

    Document(str(page)).put("| new |", "<svg/>")
    Document(str(page)).put("| newer |", "<svg/>")

    text = page.read_text()
    assert text.startswith(f"# Title\n\n{BEGIN}\n| newer |\n\n![")
    assert text.endswith(f"(performance.svg)\n\n{END}\nThe rest.\n")
    assert (tmp_path / "performance.svg").read_text() == "<svg/>"


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("# Title\n")

    with pytest.raises(ValueError, match="must have the lines"):
        Document(str(page))
