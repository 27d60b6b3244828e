"""Every link of the pages leads somewhere, down to the heading."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]

_CODE = re.compile(r"^```.*?^```$", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def links_of(text: str) -> list[str]:
    """Where a page leads within the project."""
    return [link for link in _LINK.findall(_CODE.sub("", text)) if "://" not in link]


def anchors_of(text: str) -> set[str]:
    """What GitHub calls the headings of a page: of equal ones the second ends in -1."""
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in _HEADING.findall(_CODE.sub("", text)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = _NOT_IN_ANCHORS.sub("", shown.lower()).replace(" ", "-")
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return anchors


@cache
def anchors_in(page: Path) -> set[str]:
    """Of a file."""
    return anchors_of(page.read_text())


def dead_links(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    dead = []
    for link in links_of(page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors_in(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_missing_files_and_headings_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Why `it`, and how?\n\n## Twice\n## Twice\n\n"
        "[a](#why-it-and-how) [b](#twice-1) [c](https://example.org/none) [d](page.md#twice)\n"
        "[e](none.md) [f](page.md#none) [g](#twice-2)\n\n```\n# No heading\n[h](none)\n```\n"
        "[i](#no-heading)\n"
    )

    assert dead_links(page) == ["none.md", "page.md#none", "#twice-2", "#no-heading"]
