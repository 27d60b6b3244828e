"""A stream for the request log of a run that is not ready yet."""

from __future__ import annotations

import io
from typing import TextIO


class MutedStream(io.TextIOBase):
    """Drops what is written before `unmute`: the requests that try whether all is ready."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_muted = True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a property here, a variable there
        """That of the stream behind."""
        return self._stream.encoding

    def unmute(self) -> None:
        """Pass on what is written from now on."""
        self._is_muted = False

    def write(self, text: str) -> int:
        """Write, or drop."""
        return len(text) if self._is_muted else self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream behind."""
        self._stream.flush()
