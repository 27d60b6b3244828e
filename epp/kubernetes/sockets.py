"""The sockets towards one API server, so that none outlives its client."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any
from weakref import WeakSet

_TURNS_TO_END = 20

# A peer that vanished without a word is noticed after 35 seconds.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))
        if hasattr(socket, name)
    ),
)


class Sockets:
    """Made for an HTTP client, which forgets those of requests that were given up.

    It closes them with a farewell of TLS, for which a frozen peer would keep them half a minute.
    """

    def __init__(self) -> None:
        self._made: WeakSet[socket.socket] = WeakSet()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        """A socket for an address as `getaddrinfo` gives it."""
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        for level, name, value in _KEEPALIVE:
            made.setsockopt(level, name, value)
        self._made.add(made)
        return made

    async def aclose(self) -> None:
        """End those that are left, and wait until the event loop has let go of them."""
        left = [each for each in self._made if each.fileno() != -1]
        for each in left:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS_TO_END):
            if all(each.fileno() == -1 for each in left):
                return
            await asyncio.sleep(0)
