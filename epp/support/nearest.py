"""The name somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the nearest of `known`, or nothing when none is near."""
    spelled = {name.lower(): name for name in known}
    near = get_close_matches(given.lower(), spelled, n=1, cutoff=0.6)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""
