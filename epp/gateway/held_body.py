"""A request body between the gateway's hands and back, counted as long as it is here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.gateway.overload import LoadGuard

PIECED_BYTES = 1024 * 1024
"""Longest body that is joined at its end. Of longer ones each piece is put to the others as it
comes: joining 64 MiB would take 40 ms at once, and hold them twice."""
_MOST_PIECES = 256
"""That are kept as they came: each costs 40 bytes or more besides its own."""


class HeldBody:
    """The pieces that have come. Their bytes count on the guard until they are given back."""

    __slots__ = ("_guard", "_pieces", "_whole", "counted", "seen", "size")

    def __init__(self, guard: LoadGuard) -> None:
        self._guard = guard
        self._pieces: list[bytes] = []
        self._whole: BytesIO | None = None
        """Instead of the pieces."""
        self.counted = 0
        """Bytes that are here."""
        self.size = 0
        """Bytes that have come in all."""
        self.seen = False
        """Whether a piece came at all; an empty one counts."""

    def add(self, piece: bytes) -> None:
        """Take a piece."""
        self.seen = True
        self.size += len(piece)
        if self._whole is not None:
            self._whole.write(piece)
        elif piece:
            self._pieces.append(piece)
            count = len(self._pieces)
            if count > _MOST_PIECES or (self.size > PIECED_BYTES and count > 1):
                self._whole = BytesIO()
                self._whole.writelines(self._pieces)
                self._pieces.clear()
        self.counted += len(piece)
        self._guard.hold(len(piece))

    def join(self) -> bytes:
        """All of it in one, held no longer in pieces; it still counts."""
        whole, self._whole = self._whole, None
        if whole is not None:
            return whole.getvalue()  # the buffer itself, not a copy of it
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return body

    def release(self) -> None:
        """Count it out, and drop what has not been joined."""
        self._whole = None
        self._pieces.clear()
        self._guard.give_back(self.counted)
        self.counted = 0

    def released_after(self, messages: Iterable[bytes]) -> Iterator[bytes]:
        """`messages`, with the body counted out when they have all been taken, or dropped."""
        counted = self._released_after(messages)
        next(counted)
        return counted

    def _released_after(self, messages: Iterable[bytes]) -> Iterator[bytes]:
        try:
            yield b""  # not sent: a generator that was never started would not run `finally`
            yield from messages
        finally:
            self.release()
