"""Members of a JSON object found where they stand in its text, and the `model` spliced in place.

The text is read as tokens by regular expressions, so that a long string costs one match and
nesting costs no recursion. Possessive repeats keep them linear and free of backtracking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

# The first form is the fast one, for strings whose first inner quote is not preceded by a
# backslash: searching for one byte is several times faster than for a class of two.
STRING = rb'(?:"[^"]*+"(?<!\\")|"(?:[^"\\]++|\\.)*+")'
_SCALAR = rb'(?:%b|[^\s,\]}"{\[]++)' % STRING
_NEXT_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|%b)*+[{}\[\]]' % STRING, re.DOTALL)
_COMMA = re.compile(rb"\s*+,")
_OBJECT_START = re.compile(rb"\s*+\{")
_OBJECT_END = re.compile(rb"\s*+\}")

MAX_DUPLICATES = 1000
"""Bound of the work on a body that names its model over and over."""


def _any_spelling(letter: str) -> bytes:
    """A pattern of an ASCII letter, plain or as a Unicode escape with digits of either case."""
    return rb"(?:%b|\\u(?i:%04x))" % (letter.encode(), ord(letter))


class Member(NamedTuple):
    """Offsets of one member; the value ends before `value_end`."""

    name: str
    key_start: int
    value_start: int
    value_end: int


class MemberFinder:
    """Finds the members of an object that have one of a few names, however these are escaped."""

    def __init__(self, *names: str) -> None:
        self._names = {msgspec.json.encode(name): name for name in names}
        wanted = b"|".join(b'"%b"' % b"".join(map(_any_spelling, name)) for name in names)
        # Members with other names and simple values are passed over inside one match.
        self._member = re.compile(
            rb"(?:\s*+(?!%b)%b\s*+:\s*+%b\s*+,)*+" % (wanted, STRING, _SCALAR)
            + rb"\s*+(%b)\s*+:\s*+(%b|[{\[])" % (STRING, _SCALAR),
            re.DOTALL,
        )

    def members(self, document: bytes, start: int = 0) -> Iterator[Member]:
        """The object's members of these names, in order; `start` is at or before its brace.

        Ends early, without an error, where the text ends or stops being JSON.
        """
        opening = _OBJECT_START.match(document, start)
        position = opening.end() if opening else -1
        while position >= 0 and (match := self._member.match(document, position)):
            value_start, value_end = match.span(2)
            if document[value_start] in b"{[":
                value_end = end_of_container(document, value_start)
                if value_end < 0:
                    return
            name = self._name(match[1])
            if name is not None:
                yield Member(name, match.start(1), value_start, value_end)
            comma = _COMMA.match(document, value_end)
            position = comma.end() if comma else -1

    def _name(self, key: bytes) -> str | None:
        if b"\\" not in key:
            return self._names.get(key)
        text = text_of(key)
        return text if text in self._names.values() else None


def text_of(value: bytes) -> str | None:
    """The text of a JSON string given as it was written; None if it isn't one."""
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.MsgspecError:
        return None


def end_of_container(document: bytes, start: int) -> int:
    """The offset after the object or array that begins at `start`; -1 if it has no end."""
    position = start + 1
    depth = 1
    while depth:
        match = _NEXT_BRACKET.match(document, position)
        if match is None:
            return -1
        position = match.end()
        depth += 1 if document[position - 1] in b"{[" else -1
    return position


_MODEL = MemberFinder("model")
_LONG = 64 * 1024
_BACKSLASH = 0x5C
_FIRST = re.compile(rb'\s*+\{\s*+"model"\s*+:\s*+(%b)' % STRING, re.DOTALL)
_AT_THE_END = re.compile(
    rb'"model"\s*+:\s*+(%b)\s*+(?:,\s*+%b\s*+:\s*+%b\s*+)*+\}\s*+' % (STRING, STRING, _SCALAR),
    re.DOTALL,
)


def with_model(body: bytes, model: str) -> bytes:
    """`body`, a valid JSON object, with `model` as its model and every other byte as it was.

    The value is replaced whatever its type; without the member it becomes the first one; of
    several the last one stays, which is the one decoders use. Raises ValueError when there are
    more than `MAX_DUPLICATES`.
    """
    value = msgspec.json.encode(model)
    only = _only_model(body)
    if only is not None:
        return _spliced(body, [], only, value)
    members: list[Member] = []
    for member in _MODEL.members(body):
        members.append(member)
        if len(members) > MAX_DUPLICATES:
            raise ValueError(f"the body has more than {MAX_DUPLICATES} members named model")
    if not members:
        return _with_first_member(body, b'"model":' + value)
    *earlier, last = members
    return _spliced(body, earlier, last, value)


def _only_model(body: bytes) -> Member | None:
    """The one member `model` of a long body that has it first, or with short ones at its end.

    None: the body has to be read to tell; that takes six times as long.
    """
    key = b'"model"'
    position = body.rfind(key) if len(body) > _LONG else -1
    if position < 0 or body.rfind(key, 0, position) >= 0 or body.rfind(b"\\u006") >= 0:
        return None
    place = _FIRST.match(body) or _AT_THE_END.fullmatch(body, position)
    if place is None or body[position - 1] == _BACKSLASH:
        return None
    return Member("model", position, *place.span(1))


def _spliced(body: bytes, earlier: Iterable[Member], last: Member, value: bytes) -> bytes:
    view = memoryview(body)
    pieces: list[memoryview | bytes] = []
    position = 0
    for member in earlier:
        comma = body.index(b",", member.value_end)
        pieces += view[position : member.key_start], view[member.value_end : comma]
        position = comma + 1
    pieces += view[position : last.value_start], value, view[last.value_end :]
    return b"".join(pieces)


def _with_first_member(body: bytes, member: bytes) -> bytes:
    opening = _OBJECT_START.match(body)
    if opening is None:
        raise ValueError("the body is not a JSON object")
    position = opening.end()
    separator = b"" if _OBJECT_END.match(body, position) else b","
    return b"".join((body[:position], member, separator, body[position:]))
