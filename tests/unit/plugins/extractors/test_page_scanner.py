"""Sample lines of single families on a page."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from epp.plugins.extractors.page_scanner import (
    MAX_LABEL_SET,
    MAX_LABELS,
    MAX_SERIES,
    is_exposition,
    labels_of,
    needle_of,
    sample_lines,
    series_of,
)

NEEDLE = needle_of(b"queue")


def series(page: bytes) -> list[tuple[bytes, float, float]]:
    return series_of(sample_lines(page, NEEDLE), NEEDLE)


def values(page: bytes) -> list[float]:
    return [one[1] for one in series(page)]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b"queue 5", [5.0]),
        (b"queue 5\n", [5.0]),
        (b"# TYPE queue gauge\nqueue 5\n", [5.0]),
        (b"other 1\nqueue\t5\n", [5.0]),
        (b'other 1\nqueue{a="b"}5\n', [5.0]),
        (b'# x\nqueue{ a = "b" , }   5e0 \t\n', [5.0]),
        (b"queue 5\r\nqueue 6\r\n", [5.0, 6.0]),
        (b"queue 5 1788626400123\n", [5.0]),
        (b"queue 5 1788626400.123 # {trace=\"x\"} 12.0 1.1\n", [5.0]),
        (b'queue{a="b"} 5 # {trace="x"} 12.0\n', [5.0]),
        (b'queue{a="} 7",b="\\" {"} 5\n', [5.0]),
        (b'queue{a="# {x} 7"} 5\n', [5.0]),
        (b"queue 5\n\nqueue 6\n# why\nqueue 7\nother 8\n", [5.0, 6.0, 7.0]),
        (b"queue_by_reason 1\nqueue 5\nqueue_total 9\nqueues 3", [5.0]),
        (b"# HELP queue 3\n# TYPE queue gauge\n", []),
        (b"a_queue 5\n", []),
        (b"queue", []),
        (b"", []),
        (b"queue +Inf\nqueue -Inf\nqueue -3", [math.inf, -math.inf, -3.0]),
        (b"queue 5\n# EOF", [5.0]),
    ],
)  # fmt: skip
def test_values_of_a_family_are_found(page: bytes, expected: list[float]) -> None:
    assert values(page) == expected


@pytest.mark.parametrize(
    "line",
    [
        b"queue x",
        b"queue 1_0",
        b"queue{",
        b"queue{} ",
        b"queue 5 soon",
        b"queue 0x5",
    ],
)
def test_what_is_not_a_number_reads_as_nan(line: bytes) -> None:
    assert all(math.isnan(value) for value in values(line))
    assert len(values(line)) == 1


def test_a_line_cut_off_in_its_labels_is_no_number() -> None:
    assert math.isnan(values(b'queue{a="b",c="d')[0])


def test_timestamps_are_kept() -> None:
    assert [one[2] for one in series(b"queue 5 3000\nqueue 6\n")] == [3000.0, 0.0]


def test_labels_are_unescaped() -> None:
    labels = labels_of(rb'{ engine = "0" ,model="a \"b\" {c} = d, \\x\n" , }')

    assert labels == {b"engine": b"0", b"model": b'a "b" {c} = d, \\x\n'}


def test_the_number_of_lines_read_is_bounded() -> None:
    page = b"".join(b'queue{i="%d"} 1\n' % index for index in range(MAX_SERIES + 10))

    assert len(values(page)) == MAX_SERIES


def test_families_with_longer_names_are_looked_through_to_a_bound() -> None:
    assert values(b"queue_x 1\n" * 100 + b"queue 5\n") == [5.0]
    assert values(b"queue_x 1\n" * (3 * MAX_SERIES) + b"queue 5\n") == []


@pytest.mark.parametrize(
    "piece", [b"a", b"a ", b'a="', b'a="\\"', b"}", b"{", b"#", b" ", b'"', b"\\", b"} # {", b"_"]
)
def test_a_long_line_is_read_in_the_time_its_length_takes(piece: bytes) -> None:
    line = piece * (1_000_000 // len(piece))

    found = series(b"queue{" + line + b"\nqueue 5\nqueue{" + line + b"} 5 # x\n")
    for label_set, _, _ in found:
        labels_of(label_set)

    assert found[1][1] == 5.0
    assert is_exposition(b"queue{" + line + b" x\nqueue 5\n")


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b"# HELP a b\n", True),
        (b"a 1\n", True),
        (b'\na{b="c"} NaN\n', True),
        (b"<html>\na 1\n</html>", False),
        (b' [{"a": 1}]', False),
        (b'{"a": 1}\n', False),
        (b"\x00\xff\x01", False),
        (b"", False),
        (b"upstream connect error", False),
    ],
)
def test_pages_of_something_else_are_told_apart(page: bytes, expected: bool) -> None:
    assert is_exposition(page) is expected


_names = st.sampled_from(["queue", "queues", "other"])
_texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n"\\{}#, ='))


@st.composite
def families(draw: st.DrawFn) -> bytes:
    lines = []
    for name in draw(st.lists(_names, unique=True)):
        lines.append(f"# TYPE {name} gauge")
        for label in draw(st.lists(_texts, min_size=1, unique=True)):
            escaped = label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
            value = draw(st.floats(allow_nan=False))
            blank = draw(st.sampled_from([" ", "\t", "  "]))
            time = draw(st.sampled_from(["", " 1788626400123"]))
            lines.append(f'{name}{{a="{escaped}"}}{blank}{value!r}{time}')
    return "\n".join([*lines, ""]).encode()


@settings(deadline=None)
@given(page=families())
def test_the_reading_is_that_of_a_full_parser(page: bytes) -> None:
    expected = [
        (sample.labels["a"], sample.value)
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if sample.name == "queue"
    ]

    read = [(labels_of(labels)[b"a"].decode(), value) for labels, value, _ in series(page)]

    assert read == expected


def test_of_an_endless_label_set_no_more_is_read_than_an_engine_would_write() -> None:
    many = b"{" + b",".join(b'l%d="v"' % number for number in range(2 * MAX_LABELS)) + b"}"
    long = b'{first="1",second="' + b"x" * MAX_LABEL_SET + b'"}'

    assert len(labels_of(many)) == MAX_LABELS
    assert labels_of(long) == {b"first": b"1"}
