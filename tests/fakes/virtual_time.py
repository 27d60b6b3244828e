"""An event loop whose time passes only while everybody waits, and then at once.

For code that sleeps and sets deadlines but does no I/O: minutes of it take no time, and happen in
the same order each time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


def in_virtual_time(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end; its loop's time starts at 0."""
    with asyncio.Runner(loop_factory=_VirtualTimeLoop) as runner:
        return runner.run(coroutine)


class _SkippingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("everybody waits, and nothing will ever happen")
            self.now += timeout
        return events


class _VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now
