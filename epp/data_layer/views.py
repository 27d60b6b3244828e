"""What operators are shown of scraping."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """One source of one endpoint."""

    name: str
    is_readable: bool
    interval_seconds: float
    last_error: str
    """Why the last page is missing, or what was missing on it; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointView:
    """One endpoint."""

    address: str
    name: str
    is_stale: bool
    age_seconds: float | None
    """Of its metrics; None: there are none."""
    sources: tuple[SourceView, ...]
