"""Looks which of many connections have something to read, soon after something was asked.

To be woken up by each answer alone costs as much as to read it: those that come within two
milliseconds are read together.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from epp.data_layer.timetable import Appointment, Timetable

if TYPE_CHECKING:
    import socket

MOST_PER_LOOK = 16
"""Answers that are read before others have a turn."""

SOON_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.016
_GROWTH = 1.25
"""Servers that take their time are looked after less and less often."""

_JUST_SECONDS = 0.0005
_IDLE_SECONDS = 0.1
"""How late it is noticed that a server closed a connection, or sent what nobody asked for."""


class Readable(Protocol):
    """What has something to read now and then."""

    is_asking: bool
    """Whether an answer is awaited."""

    def read(self) -> None:
        """Take what there is."""


class Inbox:
    """Sockets that do not block, each read by what it belongs to."""

    def __init__(self, timetable: Timetable, now: Callable[[], float]) -> None:
        self._timetable = timetable
        self._now = now
        self._selector = selectors.DefaultSelector()
        self._next_look = Appointment(self._look)
        self._due = 0.0
        self._looked_at = 0.0
        self._refreshed_at = 0.0
        self._awaited = 0
        self._pause = SOON_SECONDS

    def add(self, socket: socket.socket, connection: Readable) -> None:
        """Let `connection` read when there is something to read."""
        self._selector.register(socket, selectors.EVENT_READ, connection)
        self._look_by(self._now() + _IDLE_SECONDS)

    def remove(self, socket: socket.socket) -> None:
        """Look after it no more; before it is closed."""
        self._selector.unregister(socket)
        if not self._selector.get_map():
            self._timetable.cancel(self._next_look)

    def refresh(self) -> None:
        """Let everybody read what came without a question, unless that was just done.

        To be called before something is asked, to which it is no answer. Answers have their turn.
        """
        now = self._now()
        if now - self._refreshed_at < _JUST_SECONDS:
            return
        self._refreshed_at = now
        for key, _ in self._selector.select(0):
            connection: Readable = key.data
            if not connection.is_asking:
                connection.read()

    def expect(self) -> None:
        """Something has been asked."""
        self._awaited += 1
        self._pause = SOON_SECONDS
        self._look_by(self._now() + SOON_SECONDS)

    def settle(self) -> None:
        """It has been answered, or nobody waits for that any more."""
        self._awaited -= 1

    def close(self) -> None:
        """Look no more; remove everything first."""
        self._timetable.cancel(self._next_look)
        self._selector.close()

    def _look(self) -> None:
        self._looked_at = self._refreshed_at = self._now()
        ready = self._selector.select(0)
        answers = 0
        try:
            for key, _ in ready:
                connection: Readable = key.data
                if connection.is_asking:
                    answers += 1
                    if answers > MOST_PER_LOOK:
                        continue
                connection.read()
        finally:
            self._plan(is_any=bool(ready), is_more=answers > MOST_PER_LOOK)

    def _plan(self, *, is_any: bool, is_more: bool) -> None:
        if is_more:
            self._look_by(self._looked_at)
        elif self._awaited:
            self._pause = (
                SOON_SECONDS if is_any else min(self._pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
            )
            self._look_by(self._looked_at + self._pause)
        elif self._selector.get_map():
            self._look_by(self._looked_at + _IDLE_SECONDS)

    def _look_by(self, due: float) -> None:
        if not self._next_look.number or due < self._due:
            self._due = due
            self._timetable.set(self._next_look, due)
