from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.support.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("30s", 30.0),
        ("+30s", 30.0),
        ("1m30s", 90.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("3ns", 3e-9),
        ("1s1h", 3601.0),
        ("2562047h", 2562047 * 3600.0),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "s",
        "-5s",
        "1 s",
        " 1s",
        "1d",
        "1S",
        "1m30",
        ".s",
        "1..5s",
        "\u0661s",
        "1s\n",
        "NaNs",
    ],
)
def test_what_is_no_duration_is_named_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration; allowed: .*1m30s") as caught:
        parse_duration(text)

    assert repr(text) in str(caught.value)


def test_durations_beyond_gos_longest_are_refused() -> None:
    with pytest.raises(ValueError, match="'2562048h' is too long"):
        parse_duration("2562048h")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (60.0, "1m"),
        (90.0, "1m30s"),
        (3600.0, "1h"),
        (3601.0, "1h1s"),
        (0.0015, "1.5ms"),
        (2e-9, "2ns"),
    ],
)
def test_durations_are_written_in_their_shortest_form(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**15))
def test_a_written_duration_reads_back_as_itself(nanoseconds: int) -> None:
    seconds = nanoseconds / 1e9

    assert parse_duration(format_duration(seconds)) == seconds


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    problem = ""
    try:
        parse_duration(text)
    except ValueError as error:
        problem = str(error)

    assert not problem or repr(text) in problem
