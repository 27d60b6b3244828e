"""Lines out of chunks that end anywhere."""

from __future__ import annotations

from epp.framework.errors import PickerError


class LineTooLong(PickerError):
    """A line without an end."""


class LineBuffer:
    """Keeps the start of the line that is not complete yet."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes; raises `LineTooLong`."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
            self._size = 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > self._longest:
            raise LineTooLong(f"a line is longer than {self._longest} bytes")
        return [line for line in lines if line]
