from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from epp.app.flag_kinds import (
    Bytes,
    Count,
    IpAddress,
    MessageLimit,
    Port,
    PositiveSeconds,
    Seconds,
    ZapLevel,
    kind_of,
)

Colour = Literal["red", "green"]


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "TRUE", "True"])
def test_true_is_written_as_in_go(text: str) -> None:
    assert kind_of(bool).read(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "false", "FALSE", "False"])
def test_false_is_written_as_in_go(text: str) -> None:
    assert kind_of(bool).read(text) is False


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (int, "-5", -5),
        (int, "0x1f", 31),
        (int | None, "1_000", 1000),
        (str, "", ""),
        (Path | None, "a/b", Path("a/b")),
        (Path | None, "", None),
        (Port, "0", 0),
        (Port, "65535", 65535),
        (Count, "1", 1),
        (Seconds, "0", 0.0),
        (PositiveSeconds, "1ms", 0.001),
        (Bytes, "1Ki", 1024),
        (MessageLimit, "10MiB", 10 * 2**20),
        (MessageLimit, "", None),
        (MessageLimit, "0", None),
        (IpAddress, "", ""),
        (IpAddress, "::1", "::1"),
        (IpAddress, "[::1]", "::1"),
        (IpAddress, "0.0.0.0", "0.0.0.0"),
        (ZapLevel, "debug", "debug"),
        (ZapLevel, "INFO", "info"),
        (ZapLevel, "7", "7"),
        (ZapLevel, "", None),
        (Colour, "red", "red"),
        (Colour | None, "green", "green"),
    ],
)
def test_the_type_decides_how_a_text_is_read(hint: Any, text: str, value: object) -> None:
    assert kind_of(hint).read(text) == value


@pytest.mark.parametrize(
    ("hint", "text", "problem"),
    [
        (bool, "yes", "'yes' is not a boolean; allowed: true or false"),
        (bool, "", "'' is not a boolean"),
        (int, "five", "'five' is not a number"),
        (int, "010", "'010' is not a number"),
        (int, "٣", "'٣' is not a number"),
        (int, " 1", "' 1' is not a number"),
        (Port, "65536", "'65536' is out of range; allowed: whole numbers from 0 to 65535"),
        (Port, "-1", "'-1' is out of range"),
        (Count, "0", "'0' is out of range; allowed: whole numbers from 1"),
        (PositiveSeconds, "0", "'0' leaves no time; allowed: more than 0"),
        (PositiveSeconds, "5", "'5' is not a duration"),
        (Bytes, "0", "'0' leaves no room; allowed: more than 0"),
        (IpAddress, "localhost", "'localhost' is not an IP address; allowed: for example"),
        (IpAddress, "[::1", "is not an IP address"),
        (ZapLevel, "0", "'0' is not a level; allowed: debug, info, error, panic or a number"),
        (ZapLevel, "debuk", "did you mean 'debug'?"),
        (Colour, "gren", "'gren' is not one of red, green; did you mean 'green'?"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_what_is_allowed(
    hint: Any, text: str, problem: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        kind_of(hint).read(text)

    assert problem in str(caught.value)
