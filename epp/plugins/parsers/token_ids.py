"""Lists of token ids as little-endian uint32, read in slices: memory grows by 4 bytes an id."""

from __future__ import annotations

import re
import sys
from array import array
from typing import Annotated

import msgspec
from msgspec import Raw

SLICE_BYTES = 256 * 1024
"""Text that is decoded at a time; an id costs 36 bytes while it is a Python number."""

MAX_READ_BYTES = 8 * 1024 * 1024
"""Text of one request's ids that is decoded, which is more than models take in. What follows is
left out: a body of nothing but ids would hold up everybody for seconds."""

_TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]

_ids = msgspec.json.Decoder(list[_TokenId])
_OF_IDS = b"0123456789, \t\r\n"
_WHERE = re.compile(r"\$\[(\d+)\]")


class TokenIdError(Exception):
    """Something that is no token id; `index` tells where, if that is known."""

    def __init__(self, index: int | None) -> None:
        super().__init__("not a list of token ids")
        self.index = index


def token_ids(value: Raw) -> bytes:
    """The ids of a JSON array; raises `TokenIdError` if it has anything but whole numbers."""
    view = memoryview(value)
    ids = array("I")
    try:
        if len(view) <= SLICE_BYTES:
            ids.extend(_ids.decode(view))
        else:
            _extend_in_slices(ids, view[1:-1])
    except msgspec.ValidationError as error:
        where = _WHERE.search(str(error))
        raise TokenIdError(len(ids) + int(where[1]) if where else None) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TokenIdError(None) from error
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tobytes()


def check_unread(items: memoryview) -> None:
    """Raise `TokenIdError` if what stands in a list is no list of ids at first sight."""
    text = bytes(items)
    if text.isspace() or not text or text.translate(None, _OF_IDS):
        raise TokenIdError(None)


def _extend_in_slices(ids: array[int], items: memoryview) -> None:
    position = 0
    while position < len(items):
        if position >= MAX_READ_BYTES:
            check_unread(items[position:])
            return
        piece = bytes(items[position : position + SLICE_BYTES])
        if position + len(piece) < len(items):
            piece = piece[: max(piece.rfind(b","), 0)]
            if not piece:
                raise TokenIdError(None)
        ids.extend(_ids.decode(b"[%b]" % piece))
        position += len(piece) + 1
