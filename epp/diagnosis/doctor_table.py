"""Findings as text for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from epp.diagnosis.doctor_findings import Finding, Verdict
from epp.support.safe_text import printable

_WIDTH = 110
_LONGEST = 1500


def doctor_table(findings: Sequence[Finding]) -> str:
    """A line for each finding, what to do below it, and how many there are."""
    left = max((len(finding.check) for finding in findings), default=0)
    lines = [line for finding in findings for line in _lines(finding, left)]
    return "\n".join([*lines, "", _sum(findings)]) + "\n"


def _lines(finding: Finding, left: int) -> Iterator[str]:
    head = f"{finding.verdict.upper():<9}{finding.check:<{left}}  "
    blank = " " * len(head)
    yield from _wrapped(finding.found, head, blank)
    if finding.advice:
        yield from _wrapped(finding.advice, f"{blank}-> ", f"{blank}   ")


def _wrapped(text: str, first: str, following: str) -> Iterator[str]:
    for line in text[:_LONGEST].splitlines() or [""]:
        shown = printable(line)
        yield from textwrap.wrap(
            shown,
            max(_WIDTH, len(first) + 40),
            initial_indent=first,
            subsequent_indent=following,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]
        first = following


def _sum(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    return ", ".join(f"{verdict}: {counts[verdict]}" for verdict in Verdict)
