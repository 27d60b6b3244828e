"""JSON values of request bodies, checked where they stand: media and texts are not copied."""

from __future__ import annotations

import math
from typing import TypeVar

import msgspec
from msgspec import Raw

from epp.plugins.parsers.lone_surrogates import with_lone_surrogates_replaced

MAX_CONTAINERS = 65_536
"""Objects and arrays in one body; their number, not their length, is what reading costs."""

ABSENT = Raw(b"")
"""Default of a member that is looked at as it was written."""

_BYTES = tuple(bytes((number,)) for number in range(256))

_text = msgspec.json.Decoder(str)
_whole_number = msgspec.json.Decoder(int)
_fraction = msgspec.json.Decoder(float)

_Members = TypeVar("_Members")


class BodyError(Exception):
    """A body that can't be read; the text has positions and types, nothing of the content."""


class ShapeError(BodyError):
    """It is a JSON object, with a member of another type than the API gives it."""


class _AnyObject(msgspec.Struct, frozen=True, gc=False):
    """Accepts every object: tells broken JSON from an unexpected type."""


_any_object = msgspec.json.Decoder(_AnyObject | None)


def decode_object(body: bytes, decoder: msgspec.json.Decoder[_Members | None]) -> _Members:
    """The members of a body; `null` counts as an empty object."""
    if len(body) > MAX_CONTAINERS:
        containers = _count(body, b"{") + _count(body, b"[")
        if containers > MAX_CONTAINERS:
            raise BodyError(f"{containers} objects and arrays, allowed are {MAX_CONTAINERS}")
    try:
        return _decode(body, decoder)
    except BodyError:
        replaced = with_lone_surrogates_replaced(body)
        if replaced is None:
            raise
    return _decode(replaced, decoder)


def _decode(body: bytes, decoder: msgspec.json.Decoder[_Members | None]) -> _Members:
    try:
        members = decoder.decode(body)
        return members if members is not None else decoder.decode(b"{}")  # type: ignore[return-value] # an object is never None
    except RecursionError as error:
        raise BodyError("objects and arrays are nested too deeply") from error
    except msgspec.ValidationError as error:
        raise _shape_error(body, error) from error
    except msgspec.MsgspecError as error:
        raise BodyError(str(error)) from error


def _count(body: bytes, byte: bytes) -> int:
    # Where brackets are rare, going from one to the next takes a tenth of the time of counting.
    rare = len(body) // 512
    found, position = 0, body.find(byte)
    while position >= 0 and found < rare:
        found += 1
        position = body.find(byte, position + 1)
    return found if position < 0 else found + body.count(byte, position)


def _shape_error(body: bytes, error: msgspec.ValidationError) -> BodyError:
    try:
        _any_object.decode(body)
    except RecursionError:
        return BodyError("objects and arrays are nested too deeply")
    except msgspec.MsgspecError as broken:
        return BodyError(str(broken))
    return ShapeError(str(error))


def first_byte(value: Raw) -> bytes:
    """The byte that tells the type of a value; empty for an absent one."""
    # Most members are absent: a small chat body is parsed in 6 us instead of 12.
    if value is ABSENT:
        return b""
    return _BYTES[memoryview(value)[0]]


def is_a(value: Raw, opening: bytes) -> bool:
    """Whether a value that may be absent or null begins with `opening` otherwise."""
    return first_byte(value) in (b"", b"n", opening)


def is_a_boolean(value: Raw) -> bool:
    """Whether a value is true or false, if it is there."""
    return first_byte(value) in (b"", b"n", b"t", b"f")


def string_or_empty(value: Raw) -> str:
    """The text of a string; empty for any other type. Raises `BodyError` for broken text."""
    if first_byte(value) != b'"':
        return ""
    try:
        return _text.decode(value)
    except msgspec.MsgspecError as error:
        raise BodyError(str(error)) from error


def is_true(value: Raw) -> bool:
    """Whether a value is JSON `true`."""
    return first_byte(value) == b"t"


def first_whole_number(*values: Raw) -> int | None:
    """The first value that is a whole number from 0 upwards, `5.0` included."""
    for value in values:
        if not first_byte(value).isdigit():
            continue
        try:
            return _whole_number.decode(value)
        except msgspec.MsgspecError:
            number = _fraction_of(value)
            if number.is_integer():
                return int(number)
    return None


def _fraction_of(value: Raw) -> float:
    try:
        return _fraction.decode(value)
    except msgspec.MsgspecError:
        return math.nan
