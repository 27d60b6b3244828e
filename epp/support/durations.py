"""Durations in Go's syntax: `30s`, `1m30s`, `250ms`, `0`."""

from __future__ import annotations

import re
from decimal import Decimal

ALLOWED = "numbers with units such as 250ms, 30s, 1m30s or 1h, or a plain 0"

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"\+?({_PART.pattern})+", re.ASCII)
_LONGEST = 2**63 - 1


def parse_duration(text: str) -> float:
    """Return the seconds `text` stands for; ValueError names it and what is allowed."""
    if text in ("0", "+0"):
        return 0.0
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; allowed: {ALLOWED}")
    nanoseconds = sum(
        int(Decimal(number) * _NANOSECONDS[unit]) for number, unit in _PART.findall(text)
    )
    if nanoseconds > _LONGEST:
        raise ValueError(f"{text!r} is too long; allowed: up to 2562047h")
    return nanoseconds / 1e9


def format_duration(seconds: float) -> str:
    """Return the shortest text `parse_duration` reads as `seconds`, to the nanosecond."""
    rest = round(seconds * 1e9)
    if rest == 0:
        return "0s"
    if rest < _NANOSECONDS["s"]:
        unit = "ms" if rest >= _NANOSECONDS["ms"] else "us" if rest >= _NANOSECONDS["us"] else "ns"
        return f"{_decimal(rest, _NANOSECONDS[unit])}{unit}"
    hours, rest = divmod(rest, _NANOSECONDS["h"])
    minutes, rest = divmod(rest, _NANOSECONDS["m"])
    parts = [f"{hours}h" * bool(hours), f"{minutes}m" * bool(minutes)]
    return "".join(parts) + (f"{_decimal(rest, _NANOSECONDS['s'])}s" if rest else "")


def _decimal(nanoseconds: int, unit: int) -> str:
    return f"{(Decimal(nanoseconds) / unit).normalize():f}"
