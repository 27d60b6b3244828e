"""TLS of servers whose peers can't keep them busy with records that bring nothing, or little.

A peer may change its keys as often as it likes (RFC 8446 §4.6.3), and OpenSSL follows and answers
before it comes back; it may also send a byte in each record. All that a socket brings at once, a
record in every 23 bytes, took seconds.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Buffer

_T = TypeVar("_T")

_PART_BYTES = 17 * 1024
"""Given to OpenSSL at a time: a record of what others send at most."""
_RECORD_OVERHEAD = 32
"""More than any record needs beside its content."""
MAX_EMPTY_BYTES = 20 * 1024
"""Taken in a row with nothing to show for them: a record that is not whole yet takes 18 KiB."""
MAX_RECORDS = 1000
"""Read in one turn of the loop, which takes some milliseconds."""

_HANDSHAKE_BYTES = 128 * 1024
"""More than OpenSSL takes of a peer's certificates."""

_length = len


class GuardedContext(ssl.SSLContext):
    """Ends connections that bring too much of nothing."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        taken = ssl.MemoryBIO()
        self.sslobject_class = _GuardedConnection
        connection = super().wrap_bio(taken, outgoing, server_side, server_hostname, session)
        assert isinstance(connection, _GuardedConnection)
        connection.take_from(incoming, taken)
        return connection


class _GuardedConnection(ssl.SSLObject):
    """Hands OpenSSL in parts what comes, and looks at what it makes of them."""

    give_way: Callable[[], None] | None = None
    """Has it read on in another turn of the loop; without it, too many records are an error."""
    _records = 0
    """Read in a row."""
    _incoming: ssl.MemoryBIO
    _taken: ssl.MemoryBIO
    _empty: int

    def take_from(self, incoming: ssl.MemoryBIO, taken: ssl.MemoryBIO) -> None:
        """OpenSSL reads `taken`, the loop writes `incoming`."""
        self._incoming, self._taken = incoming, taken
        self._empty = -_HANDSHAKE_BYTES

    def read(self, len: int = 1024, buffer: Buffer | None = None) -> bytes:
        self._records += 1
        if self._records > MAX_RECORDS:
            self._end_turn()
        if not self._taken.pending:
            self._take()
        content = self._with_all_that_came(super().read, len, buffer)
        got = _length(content) if buffer is None else int(content)
        left = self._empty - got - _RECORD_OVERHEAD
        self._empty = left if left > 0 else 0
        return content

    def pending(self) -> int:
        pending = super().pending() + self._taken.pending
        if not pending:
            self._records = 0
        return pending

    def do_handshake(self, block: bool = False) -> None:
        self._with_all_that_came(super().do_handshake)
        self._empty = 0

    def unwrap(self) -> None:
        self._with_all_that_came(super().unwrap)

    def _with_all_that_came(self, operation: Callable[..., _T], *arguments: object) -> _T:
        while True:
            try:
                return operation(*arguments)
            except ssl.SSLWantReadError:
                if self._empty > MAX_EMPTY_BYTES:
                    raise ssl.SSLError("too many records that bring nothing") from None
                if not self._incoming.pending:
                    self._records = 0
                    raise
            self._take()

    def _end_turn(self) -> None:
        self._records = 0
        if self.give_way is None:
            raise ssl.SSLError("too many records at once")
        self.give_way()
        raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "others have their turn")

    def _take(self) -> None:
        part = self._incoming.read(_PART_BYTES)
        self._taken.write(part)
        self._empty += _length(part)


def read_in_turns(connection: object, give_way: Callable[[], None]) -> None:
    """Call `give_way` whenever a connection has been read for long: its transport is to be paused,
    and resumed in another turn of the loop."""
    if isinstance(connection, _GuardedConnection):
        connection.give_way = give_way
