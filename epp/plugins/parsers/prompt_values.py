"""The member that is a prompt in itself: a text, texts, token ids or lists of them (D12)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import msgspec
from msgspec import Raw

from epp.framework.parsed_request import PromptText
from epp.plugins.parsers.json_values import first_byte
from epp.plugins.parsers.prompt_pieces import MAX_UNESCAPED, Pieces, ReadPrompts, add_text
from epp.plugins.parsers.token_ids import (
    MAX_READ_BYTES,
    TokenIdError,
    check_unread,
    token_ids,
)
from epp.support.json_members import STRING

MAX_PROMPTS = 4096
"""Prompts of one request that are told apart; what follows counts as part of the last one."""

_LIST_START = re.compile(rb"\[\s*+(.)")
_STRING = re.compile(STRING, re.DOTALL)
_TEXTS = re.compile(rb"\[\s*+%b\s*+(?:,\s*+%b\s*+)*+\]" % (STRING, STRING), re.DOTALL)

_values = msgspec.json.Decoder(list[Raw])


def is_filled_list(value: Raw) -> bool:
    """Whether a value is a list with something in it."""
    start = _LIST_START.match(memoryview(value))
    return start is not None and start[1] != b"]"


def is_text(value: Raw) -> bool:
    """Whether a value is a string that is not empty."""
    return first_byte(value) == b'"' and memoryview(value).nbytes > 2


def is_list_of_texts(value: Raw) -> bool:
    """Whether a value is a list of strings with something in it."""
    return _first_of_list(value) == b'"' and _TEXTS.fullmatch(memoryview(value)) is not None


def prompts_of(value: Raw) -> ReadPrompts | None:
    """What reads the prompts in `value`; None: it is none of the four forms, or empty."""
    if is_text(value):
        return partial(_text, value)
    if is_list_of_texts(value):
        return partial(_texts, value)
    return token_prompts_of(value)


def token_prompts_of(value: Raw) -> ReadPrompts | None:
    """What reads the prompts in a list of token ids or of such lists; None: it is neither."""
    item = _first_of_list(value)
    try:
        if item == b"[":
            return partial(_token_lists, _filled_token_lists(value))
        if item.isdigit():
            return partial(_token_lists, [token_ids(value)])
    except TokenIdError:
        return None
    return None


def _first_of_list(value: Raw) -> bytes:
    if first_byte(value) != b"[":
        return b""
    start = _LIST_START.match(memoryview(value))
    return bytes(start[1]) if start else b""


def _filled_token_lists(value: Raw) -> list[bytes]:
    lists: list[bytes] = []
    try:
        items = _values.decode(value)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TokenIdError(None) from error
    read = 0
    for item in items:
        if first_byte(item) != b"[":
            raise TokenIdError(None)
        view = memoryview(item)
        if read >= MAX_READ_BYTES:
            check_unread(view[1:-1])
            continue
        read += view.nbytes
        ids = token_ids(item)
        if not ids:
            raise TokenIdError(None)
        lists.append(ids)
    return lists


def _text(value: Raw) -> list[PromptText]:
    pieces = Pieces()
    add_text(pieces, value)
    return [PromptText(pieces)]


def _texts(value: Raw) -> list[PromptText]:
    return list(_each_text(memoryview(value)))


def _each_text(view: memoryview) -> Iterator[PromptText]:
    room = MAX_UNESCAPED
    for number, match in enumerate(_STRING.finditer(view), 1):
        if number == MAX_PROMPTS:
            yield PromptText((view[match.start() :],))
            return
        pieces = Pieces(room)
        add_text(pieces, view[match.start() : match.end()])
        room = pieces.room
        yield PromptText(pieces)


def _token_lists(lists: list[bytes]) -> list[PromptText]:
    last = lists[MAX_PROMPTS - 1 :]
    kept = lists[: MAX_PROMPTS - 1] + ([b"".join(last)] if last else [])
    return [PromptText(token_ids=ids) for ids in kept]
