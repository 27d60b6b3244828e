from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.support.quantities import format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("4096B", 4096),
        ("10MiB", 10 * 2**20),
        ("25MB", 25_000_000),
        ("4Mi", 4 * 2**20),
        ("1G", 10**9),
        ("1Gi", 2**30),
        ("1k", 1000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("2Ti", 2 * 2**40),
        ("1.5Gi", 3 * 2**29),
        ("+1M", 1_000_000),
        ("2P", 2 * 10**15),
        ("3E", 3 * 10**18),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1.5E3", 1500),
    ],
)
def test_sizes_are_read_with_and_without_a_trailing_b(text: str, size: int) -> None:
    assert parse_quantity(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "B",
        "MiB",
        "-1",
        "1 Mi",
        "1mib",
        "1MiBB",
        "1e3B",
        "1e",
        "1e-3",
        "1e999",
        "0x10",
        "\u0661",
    ],
)
def test_what_is_no_size_is_named_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a size; allowed: .*10MiB") as caught:
        parse_quantity(text)

    assert repr(text) in str(caught.value)


def test_parts_of_a_byte_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'1\.5' is not a whole number of bytes"):
        parse_quantity("1.5")


def test_sizes_beyond_64_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="'9999999Ti' is too large"):
        parse_quantity("9999999Ti")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0"), (1000, "1000"), (1024, "1KiB"), (64 * 2**20, "64MiB"), (3 * 2**29, "1536MiB")],
)
def test_sizes_are_written_with_the_largest_unit_that_divides_them(size: int, text: str) -> None:
    assert format_quantity(size) == text


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_a_written_size_reads_back_as_itself(size: int) -> None:
    assert parse_quantity(format_quantity(size)) == size


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    problem = ""
    try:
        parse_quantity(text)
    except ValueError as error:
        problem = str(error)

    assert not problem or repr(text) in problem
