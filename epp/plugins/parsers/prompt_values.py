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
    TokenIds,
    count_unread,
    token_ids,
)
from epp.support.json_members import STRING

MAX_PROMPTS = 4096
"""Prompts of one request that are told apart; what follows counts as part of the last one."""

MAX_TEXTS_BYTES = 2 * 1024 * 1024
"""Of a list of texts, as it is written, how much is looked at: what follows counts as part of the
last one, and is texts, too, for all we know. A body of the shortest texts, or of one made of
escapes, would hold up everybody for a second."""

_LIST_START = re.compile(rb"\[\s*+(.)")
_ITEM = re.compile(rb"[\[,]\s*+(%b)\s*+" % STRING, re.DOTALL)
_ITEM_START = re.compile(rb"[\[,]\s*+")
# In valid JSON a quote behind these begins the last text, or the one where looking ends.
_TEXTS = re.compile(rb'\[\s*+(?:%b\s*+,\s*+)*+(?:"|\Z)' % STRING, re.DOTALL)

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
    if _first_of_list(value) != b'"':
        return False
    return _TEXTS.match(memoryview(value), 0, MAX_TEXTS_BYTES) is not None


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


def _filled_token_lists(value: Raw) -> list[TokenIds]:
    lists: list[TokenIds] = []
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
            lists.append(TokenIds(b"", count_unread(view[1:-1])))
            continue
        read += view.nbytes
        ids = token_ids(item)
        if not ids.ids:
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
    room, end = MAX_UNESCAPED, 0
    for _ in range(MAX_PROMPTS - 1):
        match = _ITEM.match(view, end, MAX_TEXTS_BYTES)
        if match is None:
            break
        pieces = Pieces(room)
        add_text(pieces, view[match.start(1) : match.end(1)])
        room, end = pieces.room, match.end()
        yield PromptText(pieces)
    rest = _ITEM_START.match(view, end)
    if rest is not None:
        yield PromptText((view[rest.end() :],))


def _token_lists(lists: list[TokenIds]) -> list[PromptText]:
    last = lists[MAX_PROMPTS - 1 :]
    kept = lists[: MAX_PROMPTS - 1]
    if last:
        ids = b"".join(each.ids for each in last)
        kept.append(TokenIds(ids, sum(each.omitted for each in last)))
    return [PromptText(token_ids=ids, omitted_tokens=omitted) for ids, omitted in kept]
