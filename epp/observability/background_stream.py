"""A text stream whose reader may stall: a full pipe, or a terminal that was halted."""

from __future__ import annotations

import os
import threading
from typing import TextIO

import structlog

MAX_PENDING_BYTES = 1024 * 1024
CLOSE_SECONDS = 1.0

log = structlog.get_logger(__name__)


class BackgroundStream:
    """Writes to the file behind `stream` in a thread of its own.

    A writer never waits: what comes while `max_pending_bytes` wait to be read is lost, and the
    number of lost lines is logged when reading goes on.
    """

    def __init__(self, stream: TextIO, max_pending_bytes: int = MAX_PENDING_BYTES) -> None:
        self.encoding = stream.encoding
        # Past the stream's buffer, whose lock a stalled thread would hold when the process ends.
        self._file = stream.fileno()
        self._max_pending_bytes = max_pending_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._lost = 0
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="background stream", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Take `text`, or lose it."""
        data = text.encode(self.encoding, "backslashreplace")
        with self._changed:
            if self._pending_bytes + len(data) > self._max_pending_bytes:
                self._lost += 1
            else:
                self._pending.append(data)
                self._pending_bytes += len(data)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Nothing to do: the thread holds nothing back."""

    def drain(self) -> None:
        """Wait until what is pending is written, as far as it is read soon."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pending_bytes, CLOSE_SECONDS)

    def close(self) -> None:
        """Write what is pending, as far as it is read soon, and nothing from then on."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._is_closing)
                if not self._pending:
                    return
                data, self._pending = b"".join(self._pending), []
            self._write(data)
            with self._changed:
                self._pending_bytes -= len(data)
                self._changed.notify_all()
                lost, self._lost = self._lost, 0
            if lost:
                log.warning("lines lost, nobody read them fast enough", lines=lost)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:  # there is nobody left to tell
            return
