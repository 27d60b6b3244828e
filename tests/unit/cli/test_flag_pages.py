from __future__ import annotations

from pathlib import Path

from epp.cli.flag_pages import help_text, reference_page
from epp.cli.options import serve_flags

PAGE = Path(__file__).parents[3] / "docs" / "flags.md"


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page(serve_flags())


def test_the_help_names_every_flag_and_fits_a_terminal() -> None:
    text = help_text(serve_flags())

    assert [flag.spelling for flag in serve_flags() if flag.spelling not in text] == []
    assert max(map(len, text.splitlines())) <= 100


def test_the_help_shows_defaults_as_they_are_written() -> None:
    text = help_text(serve_flags())

    assert "(default 64MiB)" in text
    assert "(default 30s)" in text
    assert "--secure-serving[=BOOL]" in text
