"""Finds out that a peer is gone without a word, or has nothing to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from epp.transport.native.outbox import Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a peer may take for what, before its connection ends."""

    handshake_seconds: float = 10.0
    """For TLS."""
    pause_seconds: float = 30.0
    """Until it is asked whether it is there, and for its first SETTINGS."""
    timeout_seconds: float = 20.0
    """For anything at all after that question."""
    idle_pauses: int = 30
    """Pauses without a stream; then it is asked to come again when it has one."""
    unread_seconds: float = 60.0
    """For reading from a socket that is full."""


class Peer(Protocol):
    """What is asked about a connection, and done with it."""

    @property
    def is_established(self) -> bool:
        """Whether the peer has shown that it speaks HTTP/2."""

    @property
    def newest_idle_stream(self) -> int | None:
        """The last stream served; None while one is open."""

    def ping(self) -> None:
        """Ask for a sign of life."""

    def drain(self) -> None:
        """Let the peer go without losing anything."""


class Keepalive:
    """Pings, and gives the peer up when nothing at all comes back."""

    __slots__ = (
        "_call_later",
        "_give_up",
        "_idle_pauses",
        "_last_stream",
        "_patience",
        "_peer",
        "_timer",
        "heard",
    )

    def __init__(
        self,
        patience: Patience,
        peer: Peer,
        *,
        call_later: Callable[[float, Callable[[], None]], Timer],
        give_up: Callable[[], None],
    ) -> None:
        self._patience = patience
        self._peer = peer
        self._call_later = call_later
        self._give_up = give_up
        self._timer: Timer | None = None
        self._idle_pauses = 0
        self._last_stream: int | None = None
        self.heard = False
        """To be set whenever bytes come."""

    def start(self) -> None:
        """The connection begins."""
        self._timer = self._call_later(self._patience.pause_seconds, self._ask)

    def stop(self) -> None:
        """It has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self) -> None:
        if not self._peer.is_established:
            self._timer = None
            self._give_up()
            return
        self.heard = False
        self._timer = self._call_later(self._patience.timeout_seconds, self._judge)
        self._count_idle_pauses()
        self._peer.ping()

    def _judge(self) -> None:
        if self.heard:
            patience = self._patience
            rest = max(patience.pause_seconds - patience.timeout_seconds, 0.0)
            self._timer = self._call_later(rest, self._ask)
        else:
            self._timer = None
            self._give_up()

    def _count_idle_pauses(self) -> None:
        newest = self._peer.newest_idle_stream
        was_idle = newest is not None and newest == self._last_stream
        self._last_stream = newest
        self._idle_pauses = self._idle_pauses + 1 if was_idle else 0
        if self._idle_pauses == self._patience.idle_pauses:
            self._peer.drain()
