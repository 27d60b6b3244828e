"""The name somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

_NEAR = 0.6
# Comparing closely takes a tenth of a millisecond, and a configuration may have a thousand slips.
_CLOSELY_COMPARED = 8
_LETTERS_COMPARED = 64


def nearest(given: str, known: Iterable[str]) -> str:
    """Return the one of `known` that is most like `given`, whole words counting most."""
    return max(_similar(given, list(known)), key=lambda name: _likeness(given, name))


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the nearest of `known`, or nothing when none is near."""
    name = near(given, known)
    return f"; did you mean {name!r}?" if name is not None else ""


def near(given: str, known: Iterable[str]) -> str | None:
    """Return the nearest of `known`; None: `given` is like none of them."""
    name = nearest(given, known)
    return name if _likeness(given, name) >= _NEAR else None


def _similar(given: str, known: list[str]) -> list[str]:
    """Those that share most words and pairs of letters with `given`, in their order."""
    if len(known) <= _CLOSELY_COMPARED:
        return known
    parts = _parts(given)
    shared = [len(parts & _parts(name)) for name in known]
    order = sorted(range(len(known)), key=lambda index: -shared[index])
    return [known[index] for index in sorted(order[:_CLOSELY_COMPARED])]


def _parts(name: str) -> set[str]:
    text = _plain(name)
    return {*text.split("-"), *(text[at : at + 2] for at in range(len(text) - 1))}


def _likeness(given: str, name: str) -> float:
    given, name = _plain(given), _plain(name)
    words, others = given.split("-"), name.split("-")
    shared = len(set(words) & set(others)) / max(len(words), len(others))
    return SequenceMatcher(None, given, name).ratio() + shared


def _plain(name: str) -> str:
    return name[:_LETTERS_COMPARED].strip("-").lower()
