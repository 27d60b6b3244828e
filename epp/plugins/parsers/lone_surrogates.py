"""Halves of surrogate pairs in JSON: clients that cut a text within an emoji send them.

The reference's decoder reads one as U+FFFD, ours refuses the body.
"""

from __future__ import annotations

import re

MAX_BYTES = 16 * 1024 * 1024
"""Longest body that is looked through: this one takes up to 50 ms."""
MAX_ESCAPES = 10_000
"""Escapes of surrogates that are looked at; each takes 0.5 us."""
_MOST_BACKSLASHES = 64

_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[c-fC-F][0-9a-fA-F]{2})"
)
_REPLACEMENT = rb"\ufffd"


def with_lone_surrogates_replaced(body: bytes) -> bytes | None:
    """`body`, with U+FFFD for each half of a pair that stands alone, in as many bytes; None if
    there is none, or too much to look at."""
    if len(body) > MAX_BYTES:
        return None
    replaced: bytearray | None = None
    position = 0
    for _ in range(MAX_ESCAPES):
        match = _SURROGATE.search(body, position)
        if match is None:
            break
        start = match.start()
        if _is_escaped(body, start):
            position = start + 2
            continue
        position = match.end()
        if match[1] is None:
            if replaced is None:
                replaced = bytearray(body)
            replaced[start:position] = _REPLACEMENT
    return bytes(replaced) if replaced is not None else None


def _is_escaped(body: bytes, position: int) -> bool:
    """Whether the backslash there is the second one of an escape."""
    before = body[max(position - _MOST_BACKSLASHES, 0) : position]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1
