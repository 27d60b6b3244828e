"""What a check has found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    SKIPPED = "skipped"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a check has found; a check may find several."""

    check: str
    verdict: Verdict
    found: str
    advice: str = ""
    """What to do about it; empty where there is nothing to do."""


def ok(check: str, found: str, advice: str = "") -> Finding:
    """All is well there."""
    return Finding(check=check, verdict=Verdict.OK, found=found, advice=advice)


def warning(check: str, found: str, advice: str) -> Finding:
    """It works, but not as well as it should, or not always."""
    return Finding(check=check, verdict=Verdict.WARNING, found=found, advice=advice)


def fault(check: str, found: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(check=check, verdict=Verdict.FAULT, found=found, advice=advice)


def skipped(check: str, found: str, advice: str = "") -> Finding:
    """There was nothing to look at, or no way to it."""
    return Finding(check=check, verdict=Verdict.SKIPPED, found=found, advice=advice)


def has(findings: Iterable[Finding], verdict: Verdict) -> bool:
    """Whether any of them is of that kind."""
    return any(finding.verdict is verdict for finding in findings)


def listing(items: Iterable[str], most: int = 5) -> str:
    """Items in a row, cut when there are many."""
    texts = list(items)
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
