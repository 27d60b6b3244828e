"""What open streams meet from outside: on which nothing comes, they end; when all bodies together
are too many, the longest make room."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import TYPE_CHECKING

from epp.gateway.modes import WHOLE_BODIES
from epp.gateway.rejections import body_stopped
from epp.gateway.request_state import RequestState

if TYPE_CHECKING:
    from epp.gateway.context import GatewayContext
    from epp.gateway.request_side import RequestSide
    from epp.gateway.stream import Transaction

UNREAD_SECONDS = 10.0
"""After which an answer that is not taken is no answer on its way any more."""
_PAUSE_SECONDS = 1.0


class Upkeep:
    """Looks after the open streams of a server."""

    def __init__(self, context: GatewayContext, streams: Set[Transaction]) -> None:
        self._context = context
        self._streams = streams
        self._silent: dict[Transaction, float] = {}
        """Those without a message when they were looked at last, and since when."""
        self._nothing_until = float("-inf")
        """Until then there is no use in looking for bodies to let go of."""

    async def run(self) -> None:
        """End streams on which nothing comes, for ever (decision 2)."""
        timeout = self._context.settings.body_idle_timeout
        while True:
            await asyncio.sleep(min(1.0, timeout / 4))
            self.end_idle(self._context.now())

    def end_idle(self, now: float) -> None:
        """Answer 408 where nothing of a body came within the timeout, or end what never began."""
        timeout = self._context.settings.body_idle_timeout
        silent: dict[Transaction, float] = {}
        for stream in list(self._streams):
            request = stream.request
            if request is None:
                silent[stream] = first_seen = self._silent.get(stream, now)
                if now - first_seen > timeout:
                    stream.abort("no message came")
            elif _waits_for_body(request) and now - request.last_activity > timeout:
                request.reject(body_stopped(timeout))
        self._silent = silent

    def make_room(self, size: int) -> None:
        """Let go of the longest bodies until `size` bytes are free: one peer, or a few requests,
        must not take what all others need."""
        now = self._context.now()
        if now < self._nothing_until:
            return
        pressure, signal = self._context.guard.buffer_pressure()
        long_ago = now - UNREAD_SECONDS
        held = [(_bytes_to_free(each.request, long_ago), each) for each in self._streams]
        for bytes_held, stream in sorted(held, key=_bytes_held, reverse=True):
            if size <= 0 or not bytes_held:
                break
            stream.make_room(pressure, signal)
            size -= bytes_held
        if size > 0:
            self._nothing_until = now + _PAUSE_SECONDS


def _waits_for_body(request: RequestSide) -> bool:
    """A body that the gateway keeps until it is whole may be growing there for as long as it
    likes: nothing of it is due."""
    return request.state is RequestState.READING and request.mode not in WHOLE_BODIES


def _bytes_to_free(request: RequestSide | None, long_ago: float) -> int:
    """Bytes of the request's body that its end would set free. One that was answered is on its way,
    unless nothing of it came since `long_ago`: then its answer is not read."""
    if request is None:
        return 0
    is_under_way = request.state is not RequestState.READING
    return 0 if is_under_way and request.last_activity > long_ago else request.held_bytes()


def _bytes_held(entry: tuple[int, Transaction]) -> int:
    return entry[0]
