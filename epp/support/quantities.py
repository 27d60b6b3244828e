"""Sizes in bytes as Kubernetes quantities, a trailing B allowed: `10MiB`, `25MB`, `4Mi`, `1G`."""

from __future__ import annotations

import re
from decimal import Decimal

ALLOWED = (
    "bytes, or a number with k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei such as 64Mi, 10MiB or 25MB"
)

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_FACTORS = {**_DECIMAL, "P": 10**15, "E": 10**18, **_BINARY}
_QUANTITY = re.compile(
    r"\+?(\d+(?:\.\d*)?|\.\d+)(?:[eE](\+?\d{1,2})|([KMGTPE]i|[kKMGTPE]|)B?)", re.ASCII
)
_LARGEST = 2**63 - 1


def parse_quantity(text: str) -> int:
    """Return the bytes `text` stands for; ValueError names it and what is allowed."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size; allowed: {ALLOWED}")
    number, exponent, suffix = match.groups()
    size = Decimal(number) * (10 ** int(exponent) if exponent else _FACTORS[suffix])
    if size != size.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number of bytes; allowed: {ALLOWED}")
    if size > _LARGEST:
        raise ValueError(f"{text!r} is too large; allowed: up to {_LARGEST} bytes")
    return int(size)


def format_quantity(size: int) -> str:
    """Return `size` with the largest binary unit that divides it, as `parse_quantity` reads it."""
    for suffix, factor in reversed(_BINARY.items()):
        if size and size % factor == 0:
            return f"{size // factor}{suffix}B"
    return str(size)
