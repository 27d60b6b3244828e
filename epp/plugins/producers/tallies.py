"""How often each bit is set in many bitmasks, without looking at the bits one by one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import TypeVar

T = TypeVar("T")

_TRUTH = bytes.maketrans(b"01", b"\x00\x01")


def tally(weighted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs `(bits, count)`: the bits that are set in masks whose weights sum up to `count`.

    The counters of all bits are kept in parallel, as columns of binary numbers: `planes[k]` has
    the bits whose counter has digit `k` set.
    """
    planes: list[int] = []
    for mask, weight in weighted:
        digit = 0
        while weight:
            if weight & 1:
                _add(planes, mask, digit)
            weight >>= 1
            digit += 1
    return _read(planes)


def _add(planes: list[int], carry: int, digit: int) -> None:
    while carry:
        while digit >= len(planes):
            planes.append(0)
        plane = planes[digit]
        planes[digit] = plane ^ carry
        carry &= plane
        digit += 1


def _read(planes: list[int]) -> list[tuple[int, int]]:
    union = 0
    for plane in planes:
        union |= plane
    groups = [(union, 0)] if union else []
    for digit in range(len(planes) - 1, -1, -1):
        plane, split = planes[digit], []
        for bits, count in groups:
            with_digit = bits & plane
            if with_digit:
                split.append((with_digit, count + (1 << digit)))
            if with_digit != bits:
                split.append((bits ^ with_digit, count))
        groups = split
    return groups


def selected(items: list[T], bits: int) -> compress[T]:
    """The items whose index is a set bit."""
    # Through text, since that is a few C calls whatever the number of bits.
    return compress(items, f"{bits:b}"[::-1].encode().translate(_TRUTH))
