"""Which core runs what: servers have one for themselves, all else shares another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_CORES = sorted(os.sched_getaffinity(0))
OF_SERVERS = _CORES[0]
OF_CLIENTS = _CORES[-1]
"""The same one where there is only one: CPU time tells as much, latency does not."""


@contextmanager
def starting_on(core: int) -> Iterator[None]:
    """Processes started within the block run on that core only, all their threads."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
