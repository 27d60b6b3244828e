"""Tracebacks without what exceptions say, which may quote a prompt or a header's value."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

_MOST_FRAMES = 20
_MOST_CAUSES = 5
_MOST_OF_A_GROUP = 5


def kind_of(error: BaseException) -> str:
    """The name of the exception's class, with its module unless it is Python's own."""
    kind = type(error)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return prefix + kind.__qualname__


def wordless_traceback(error: BaseException) -> str:
    """The lines of code that led to `error` and to its causes, without their messages."""
    parts = [
        "Traceback (most recent call last):\n"
        + "".join(traceback.format_tb(each.__traceback__, limit=-_MOST_FRAMES))
        + kind_of(each)
        for each in _causes(error)
    ]
    return "\n\nwhich led to\n\n".join(reversed(parts))


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if current is None:
            return
        yield current
        if isinstance(current, BaseExceptionGroup):
            yield from current.exceptions[:_MOST_OF_A_GROUP]
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)
