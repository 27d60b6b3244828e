"""How many spans were lost on the way to a collector, and why."""

from __future__ import annotations

from collections.abc import Mapping

QUEUE_FULL, NOT_TAKEN = "queue-full", "not-taken"


class SpanLosses:
    """Counts them beside the queue of the SDK, which drops a span for each one that it is too full
    for, and says so once.

    Spans are put into the queue by one thread and taken out by another, each with numbers of its
    own, so that nothing has to be locked. What is taken out is known a moment late: a loss may be
    counted before its time, and then the next one is not.
    """

    def __init__(self, queue: int) -> None:
        self._room = queue
        self._put = 0
        self._taken_out = 0
        self._dropped = 0
        self._refused = 0

    def put(self) -> None:
        """A span goes into the queue."""
        if self._put - self._dropped - self._taken_out >= self._room:
            self._dropped += 1
        self._put += 1

    def taken_out(self, count: int) -> None:
        """So many are about to be sent."""
        self._taken_out += count

    def refused(self, count: int) -> None:
        """So many were sent in vain."""
        self._refused += count

    def by_reason(self) -> Mapping[str, int]:
        """Since the start of the process."""
        return {QUEUE_FULL: self._dropped, NOT_TAKEN: self._refused}
