"""A stream for the process log of a run whose banner is not shown yet."""

from __future__ import annotations

import io
from collections import deque
from typing import TextIO

MOST_HELD = 1000


class HeldStream(io.TextIOBase):
    """Keeps what is written before `release`, the last lines if there are many."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held: deque[str] | None = deque(maxlen=MOST_HELD)

    def release(self) -> None:
        """Write what was kept, and pass on what comes from now on."""
        held, self._held = self._held, None
        if held:
            self._stream.write("".join(held))
            self._stream.flush()

    def write(self, text: str) -> int:
        """Write, or keep."""
        if self._held is None:
            return self._stream.write(text)
        self._held.append(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream behind."""
        self._stream.flush()
