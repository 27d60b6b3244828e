"""docs/migrating.md says what becomes of every flag, and names every deviation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epp.app.flags import Declaration, Section, Standing
from epp.cli.options import serve_flags
from epp.config.unavailable import UNAVAILABLE

PAGE = (Path(__file__).parents[3] / "docs/migrating.md").read_text()
BEGINNINGS = {
    Standing.WORKS: ("kept", "differs"),
    Standing.NO_EFFECT: ("no effect",),
    Standing.REMOVED: ("refused, as there",),
}
FLAGS = {flag.spelling: flag for flag in serve_flags()}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in lines[1:]]


SAID = {
    flag: said
    for flags, said in rows(section("Flags"))
    for flag in re.findall(r"`(-[a-z-]+)`", flags)
}


@pytest.mark.parametrize("spelling", SAID)
def test_a_row_says_what_becomes_of_the_flag(spelling: str) -> None:
    flag: Declaration = FLAGS[spelling]

    assert SAID[spelling].startswith(BEGINNINGS[flag.flag.standing])


def test_every_flag_without_a_counterpart_has_a_row() -> None:
    elsewhere = {name for name, flag in FLAGS.items() if flag.flag.section is Section.ELSEWHERE}

    assert elsewhere <= SAID.keys()


def test_every_deviation_on_the_wire_is_named_once_in_order() -> None:
    named = [row[0] for row in rows(section("On the wire"))]

    assert named == [f"D{number}" for number in range(1, 27)]


def test_plugin_types_that_are_missing_are_told() -> None:
    told = section("Configuration and plugins")
    groups = ("fairness", "ordering", "eviction", "limit", "holdback", "ceiling")

    for plugin_type in UNAVAILABLE:
        beginning = plugin_type.rsplit("-", 1)[0]
        assert (
            f"`{plugin_type}`" in told
            or f"`{beginning}-*`" in told
            or any(group in plugin_type for group in groups)
        ), plugin_type
