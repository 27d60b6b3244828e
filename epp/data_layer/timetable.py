"""Who is called when: one timer for all, and one turn of the event loop for all of one time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush

MOST_PER_TURN = 16
"""Calls of one turn: each is a request, and its answer comes at the same time as the others'."""

# Timers of the event loop are no more exact than that, and whoever is due then is called along.
_TOGETHER_SECONDS = 0.001
# Of a table smaller than that nobody cares what is in it.
_FEW = 64


class Appointment:
    """A call that is made again and again, at times that are told one by one."""

    __slots__ = ("call", "number")

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.number = 0
        """Of its entry in the table; 0: it has none."""


class Timetable:
    """Keeps appointments. A timer of the loop for each would cost as much as half a request."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._newest = 0
        self._entries: list[tuple[float, int, Appointment]] = []
        self._void = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, appointment: Appointment, due: float) -> None:
        """Call it at this time instead of any other; needs a running event loop."""
        if appointment.number:
            self.cancel(appointment)
        number = appointment.number = self._newest = self._newest + 1
        heappush(self._entries, (due, number, appointment))
        if self._timer is None or due < self._due:
            self._arm()

    def cancel(self, appointment: Appointment) -> None:
        """Do not call it."""
        if not appointment.number:
            return
        appointment.number = 0
        self._void += 1
        entries = self._entries
        if self._void == len(entries) or self._void > max(_FEW, len(entries) // 2):
            entries[:] = [entry for entry in entries if entry[1] == entry[2].number]
            heapify(entries)
            self._void = 0
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._entries:
            self._due = self._entries[0][0]
            delay = max(0.0, self._due - self._now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._turn)

    def _turn(self) -> None:
        entries = self._entries
        limit = self._now() + _TOGETHER_SECONDS
        newest, left = self._newest, MOST_PER_TURN
        try:
            while left and entries and entries[0][0] <= limit:
                if entries[0][1] > newest:  # made in this turn, for the next
                    break
                _, number, appointment = heappop(entries)
                if number != appointment.number:
                    self._void -= 1
                    continue
                appointment.number = 0
                left -= 1
                appointment.call()
        finally:  # a fault of one of them is not to end the others
            self._arm()
