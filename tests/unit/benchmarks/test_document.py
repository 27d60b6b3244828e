from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.document import BEGIN, END, put_into


def test_what_was_measured_replaces_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"# Title\n\n{BEGIN}old\n{END}\nThe rest.\n")

    put_into(page, "| new |", "<svg/>")
    put_into(page, "| newer |", "<svg/>")

    text = page.read_text()
    assert text.startswith(f"# Title\n\n{BEGIN}\n| newer |\n\n![")
    assert text.endswith(f"(performance.svg)\n\n{END}\nThe rest.\n")
    assert (tmp_path / "performance.svg").read_text() == "<svg/>"


def test_a_page_without_markers_stays_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("# Title\n")

    with pytest.raises(ValueError, match="must have the lines"):
        put_into(page, "| new |", "<svg/>")

    assert page.read_text() == "# Title\n"
