"""How spans wait and are sent together, as the variables `OTEL_BSP_*` say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

QUEUE = "OTEL_BSP_MAX_QUEUE_SIZE"
SIZE = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
DELAY = "OTEL_BSP_SCHEDULE_DELAY"

SMALL_BATCH = 128
"""Encoding a batch holds up the event loop: 3.5 ms, with the SDK's default of 512 it is 14."""
_MOST_SPANS = 1 << 20
_LONGEST_DELAY = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Numbers of spans, and a time in milliseconds."""

    queue: int = 2048
    """That wait; more are lost."""
    size: int = SMALL_BATCH
    """That are sent together."""
    delay: int = 5000
    """After which those that wait are sent although they are fewer."""


def read_batches(environment: Mapping[str, str], problems: list[str]) -> Batches:
    """Not left to the SDK: what it can't use keeps it from sending anything, silently at worst."""

    def number(name: str, default: int, most: int) -> int:
        text = environment.get(name, "").strip()
        if not text:
            return default
        if text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most:
            return int(text)
        problems.append(
            f"{name}={text[:100]!r} must be a whole number from 1 to {most}; {default} is used"
        )
        return default

    default = Batches()
    queue = number(QUEUE, default.queue, _MOST_SPANS)
    size = number(SIZE, default.size, _MOST_SPANS)
    return Batches(
        queue=queue, size=min(size, queue), delay=number(DELAY, default.delay, _LONGEST_DELAY)
    )
