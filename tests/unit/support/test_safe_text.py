from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.support.safe_text import printable


@given(text=st.text(), limit=st.integers(3, 40))
def test_any_text_becomes_one_line_that_a_terminal_only_shows(text: str, limit: int) -> None:
    assert printable(text, limit).isprintable()
    assert len(printable(text, limit)) <= limit * len("\\U0001f600")
    printable(text, limit).encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("llama-3 8b é 模型", "llama-3 8b é 模型"),
        ("a\nb\r", "a\\nb\\r"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202egnp", "\\u202egnp"),
        ("\ud800", "\\ud800"),
        ("x" * 17, "xxxxxxxxxxxxx..."),
        ("", ""),
    ],
    ids=["plain", "line breaks", "colour", "right to left", "surrogate", "long", "empty"],
)
def test_what_is_not_plain_to_see_is_escaped(text: str, expected: str) -> None:
    assert printable(text, 16) == expected


def test_without_a_limit_nothing_is_cut() -> None:
    assert printable("x" * 5000) == "x" * 5000
