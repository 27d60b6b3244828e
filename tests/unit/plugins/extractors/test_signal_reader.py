"""What is remembered of a page changes nothing of what the next one says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.plugins.extractors.engine_mappings import Aggregation, signal
from epp.plugins.extractors.family_lines import FamilyLines
from epp.plugins.extractors.page_scanner import needle_of, sample_lines
from epp.plugins.extractors.signal_reader import SignalReader
from epp.plugins.extractors.signals import COUNT, RATIO, Kind, Signal

NAMES = ("q:waiting", "q:waiting_by_reason", "q:usage", "q:old_usage", "other")
NUMBERS = ("0.0", "1.0", "17.0", "0.25", "1.5", "-1", "NaN", "1_0", "3 1700000000000", "2 # {} 1")
LABEL_SETS = ("", '{e="0"}', '{e="1"}', '{e="0",p="}#"}', '{e="0",p="a b"}')


@st.composite
def families(draw: st.DrawFn) -> bytes:
    """A page with each family in one piece, in any order."""
    lines: list[str] = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5)):
        if draw(st.booleans()):
            lines.append(f"# HELP {name} Something.")
        if draw(st.integers(0, 4)):
            lines.append(f"# TYPE {name} gauge")
        series = st.tuples(st.sampled_from(LABEL_SETS), st.sampled_from(NUMBERS))
        lines += [
            f"{name}{labels} {number}" for labels, number in draw(st.lists(series, max_size=3))
        ]
        lines += ["x 1"] * draw(st.sampled_from([0, 0, 1, 100, 400]))
    return "\n".join(lines).encode() + draw(st.sampled_from([b"\n", b""]))


def signals() -> Sequence[Signal]:
    kinds: Sequence[tuple[Kind, str]] = ((COUNT, "q:waiting"), (COUNT, 'q:waiting{e="0"}'))
    single = [signal(name, kind=kind, aggregation="sum") for kind, name in kinds]
    first = signal("q:waiting", kind=COUNT, aggregation="first")
    return [*single, first, signal("q:usage", "q:old_usage", kind=RATIO, aggregation="sum")]


@given(pages=st.lists(families(), min_size=1, max_size=6))
def test_a_reader_reads_every_page_as_if_it_were_the_first(pages: list[bytes]) -> None:
    for each in signals():
        reader = SignalReader(each)
        for page in pages:
            problems: list[str] = []
            expected: list[str] = []

            assert reader.read(page, problems) == each.read(page, expected)
            assert problems == expected


@given(pages=st.lists(families(), min_size=1, max_size=6))
def test_lines_are_those_of_a_search_of_the_whole_page(pages: list[bytes]) -> None:
    for name in NAMES:
        needle = needle_of(name.encode())
        family = FamilyLines(needle)
        for page in pages:
            assert family.on(page) == sample_lines(page, needle)


def waiting_page(*series: str, before: int = 10) -> bytes:
    lines = "".join(f"q:waiting{each}\n" for each in series)
    return b"x 1\n" * before + b"# TYPE q:waiting gauge\n" + lines.encode()


@pytest.mark.parametrize("aggregation", ["sum", "first"])
def test_a_family_is_followed_wherever_it_moves(aggregation: Aggregation) -> None:
    reader = SignalReader(signal("q:waiting", kind=COUNT, aggregation=aggregation))

    for number, before in enumerate((10, 11, 0, 5000, 4990, 3, 3)):
        assert reader.read(waiting_page(f" {number}", before=before), []) == number


def test_a_family_that_goes_and_returns_is_found_again() -> None:
    reader = SignalReader(signal("q:waiting", kind=COUNT, aggregation="sum"))

    assert reader.read(waiting_page(" 1"), []) == 1
    assert reader.read(b"x 1\n" * 10, []) is None
    assert reader.read(waiting_page(" 1"), []) == 1


def test_a_second_series_is_added_to_the_only_one_there_was() -> None:
    reader = SignalReader(signal("q:waiting", kind=COUNT, aggregation="sum"))

    assert reader.read(waiting_page('{e="0"} 1'), []) == 1
    assert reader.read(waiting_page('{e="0"} 1', '{e="1"} 2'), []) == 3
    assert reader.read(waiting_page('{e="1"} 2'), []) == 2
