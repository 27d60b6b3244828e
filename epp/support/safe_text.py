"""Text that clients chose, made fit for a log: short, on one line, without terminal escapes."""

from __future__ import annotations

MOST_ID = 128
"""Characters of a request's id in a log: clients choose it."""


def printable(text: str, limit: int | None = None) -> str:
    """`text` cut to `limit` characters, with everything that is not plain to see escaped.

    Line breaks, control characters, text direction marks and lone surrogates among them.
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 3] + "..."
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() else _escaped(char) for char in text])


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
