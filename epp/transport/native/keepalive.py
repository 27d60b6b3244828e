"""Finds out that a peer is gone without a word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from epp.transport.native.outbox import Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepaliveTimes:
    """How often a peer is asked, and how long it may take to say anything."""

    pause_seconds: float = 30.0
    timeout_seconds: float = 20.0


class Keepalive:
    """Pings, and gives the peer up when nothing at all comes back."""

    __slots__ = ("_call_later", "_give_up", "_is_established", "_ping", "_timer", "_times", "heard")

    def __init__(
        self,
        times: KeepaliveTimes,
        *,
        call_later: Callable[[float, Callable[[], None]], Timer],
        ping: Callable[[], None],
        give_up: Callable[[], None],
        is_established: Callable[[], bool],
    ) -> None:
        self._times = times
        self._call_later = call_later
        self._ping = ping
        self._give_up = give_up
        self._is_established = is_established
        self._timer: Timer | None = None
        self.heard = False
        """To be set whenever bytes come."""

    def start(self) -> None:
        """The connection begins."""
        self._timer = self._call_later(self._times.pause_seconds, self._ask)

    def stop(self) -> None:
        """It has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self) -> None:
        self.heard = False
        self._timer = self._call_later(self._times.timeout_seconds, self._judge)
        self._ping()

    def _judge(self) -> None:
        # A peer that has not even sent its SETTINGS by now never will.
        if self.heard and self._is_established():
            times = self._times
            rest = max(times.pause_seconds - times.timeout_seconds, 0.0)
            self._timer = self._call_later(rest, self._ask)
        else:
            self._timer = None
            self._give_up()
