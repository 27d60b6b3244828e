"""Halves of surrogate pairs, found among all the other things that have backslashes."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from epp.plugins.parsers.lone_surrogates import MAX_ESCAPES, with_lone_surrogates_replaced

HALVES = re.compile("[\ud800-\udfff]")
PARTS = ["\\", '"', "\ud83d", "\ude00", "\N{GRINNING FACE}", "u", "d800", "\n", "\N{EURO SIGN}"]


@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_each_half_that_stands_alone_becomes_the_replacement_character(text: str) -> None:
    written = json.dumps(text).encode()
    wanted = HALVES.sub("\N{REPLACEMENT CHARACTER}", json.loads(written))

    replaced = with_lone_surrogates_replaced(written)

    if replaced is None:
        assert json.loads(written) == wanted
    else:
        assert json.loads(replaced) == wanted
        assert len(replaced) == len(written)


def test_escapes_in_capital_letters_are_found() -> None:
    assert with_lone_surrogates_replaced(rb'"\uDEAD"') == rb'"\ufffd"'
    assert with_lone_surrogates_replaced(rb'"\uD83D\uDE00"') is None


def test_no_more_escapes_are_looked_at_than_is_cheap() -> None:
    written = rb"\ud800" * (MAX_ESCAPES + 1)
    replaced = with_lone_surrogates_replaced(written)
    assert replaced == rb"\ufffd" * MAX_ESCAPES + rb"\ud800"
