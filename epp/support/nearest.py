"""The name somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

_NEAR = 0.6


def nearest(given: str, known: Iterable[str]) -> str:
    """Return the one of `known` that is most like `given`, whole words counting most."""
    return max(known, key=lambda name: _likeness(given, name))


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the nearest of `known`, or nothing when none is near."""
    name = nearest(given, known)
    return f"; did you mean {name!r}?" if _likeness(given, name) >= _NEAR else ""


def _likeness(given: str, name: str) -> float:
    given, name = given.strip("-").lower(), name.strip("-").lower()
    words = given.split("-")
    shared = len(set(words) & set(name.split("-"))) / len(words)
    return SequenceMatcher(None, given, name).ratio() + shared
