"""Lists of token ids as little-endian uint32, read in slices: memory grows by 4 bytes an id."""

from __future__ import annotations

import re
import sys
from array import array
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Raw

SLICE_BYTES = 256 * 1024
"""Text that is decoded at a time; an id costs 36 bytes while it is a Python number."""

MAX_READ_BYTES = 2 * 1024 * 1024
"""Text of one request's ids that is decoded: more than twice of what prefix caches look at. What
follows is counted: a body of nothing but ids would hold up everybody."""

_TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]

_ids = msgspec.json.Decoder(list[_TokenId])
_OF_IDS = b"0123456789, \t\r\n"
_WHERE = re.compile(r"\$\[(\d+)\]")


class TokenIdError(Exception):
    """Something that is no token id; `index` tells where, if that is known."""

    def __init__(self, index: int | None) -> None:
        super().__init__("not a list of token ids")
        self.index = index


class TokenIds(NamedTuple):
    """What a list holds."""

    ids: bytes
    """Little-endian uint32, as many as are read."""
    omitted: int
    """How many follow."""


def token_ids(value: Raw) -> TokenIds:
    """The ids of a JSON array; raises `TokenIdError` if it has anything but whole numbers."""
    view = memoryview(value)
    ids = array("I")
    omitted = 0
    try:
        if len(view) <= SLICE_BYTES:
            ids.extend(_ids.decode(view))
        else:
            omitted = _extend_in_slices(ids, view[1:-1])
    except msgspec.ValidationError as error:
        where = _WHERE.search(str(error))
        raise TokenIdError(len(ids) + int(where[1]) if where else None) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TokenIdError(None) from error
    if sys.byteorder == "big":
        ids.byteswap()
    return TokenIds(ids.tobytes(), omitted)


def count_unread(items: memoryview) -> int:
    """How many ids there are in what stands in a list; raises `TokenIdError` if it is no list of
    ids at first sight."""
    text = bytes(items)
    if text.isspace() or not text or text.translate(None, _OF_IDS):
        raise TokenIdError(None)
    return text.count(b",") + 1


def _extend_in_slices(ids: array[int], items: memoryview) -> int:
    """Read what is to be read; gives how many follow."""
    position = 0
    while position < len(items):
        if position >= MAX_READ_BYTES:
            return count_unread(items[position:])
        piece = bytes(items[position : position + SLICE_BYTES])
        if position + len(piece) < len(items):
            piece = piece[: max(piece.rfind(b","), 0)]
            if not piece:
                raise TokenIdError(None)
        ids.extend(_ids.decode(b"[%b]" % piece))
        position += len(piece) + 1
    return 0
