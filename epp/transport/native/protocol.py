"""A connection on a socket: what asyncio calls, and when output is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ssl import SSLObject
from typing import cast

from epp.transport.guarded_tls import read_in_turns
from epp.transport.native.budgets import Budget
from epp.transport.native.connection import Connection
from epp.transport.native.keepalive import Keepalive, Patience
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.native.outbox import Timer

_HIGH_WATER = 512 * 1024
_LOW_WATER = 128 * 1024
_SECONDS_TO_CLOSE = 1.0
"""For the peer to read what was written last."""


@dataclass(kw_only=True, slots=True)
class Shared:
    """What the connections of one listener have in common."""

    methods: Mapping[bytes, StreamMethod]
    budget: Budget
    limits: ConnectionLimits
    patience: Patience
    on_empty: Callable[[], None]
    arriving: set[NativeProtocol] = field(default_factory=set)
    """Those accepted, whose TLS handshake has not ended."""
    connections: dict[NativeProtocol, None] = field(default_factory=dict)
    """Oldest first."""
    spares_newest: bool = False
    """Of too many connections: an older one ends, without a stream if there is such a one."""
    is_stopping: bool = False
    stopwatch: Callable[[], float] = time.monotonic
    """For how long a turn of the loop takes; the loop's own clock stands still meanwhile."""

    @property
    def count(self) -> int:
        """How many connections there are, those that are still arriving included."""
        return len(self.connections) + len(self.arriving)

    def admit(self) -> NativeProtocol:
        """Another one arrives."""
        protocol = NativeProtocol(self, asyncio.get_running_loop())
        self.arriving.add(protocol)
        return protocol

    def make_room(self) -> NativeProtocol | None:
        """End one for another that arrives, and say which; None: the newcomer has to go."""
        connections = self.connections
        if not self.spares_newest or not connections:
            return None
        idle = (each for each in connections if not each.connection.table)
        ended = next(idle, None) or next(iter(connections))
        del connections[ended]
        ended.abort()
        return ended

    def arrived(self, connection: NativeProtocol) -> None:
        """Its arrival is over, whatever came of it."""
        self.arriving.discard(connection)


class NativeProtocol(asyncio.Protocol):
    """One connection of a listener."""

    _transport: asyncio.Transport

    def __init__(self, shared: Shared, loop: asyncio.AbstractEventLoop) -> None:
        self._shared = shared
        self._loop = loop
        self.connection = Connection(
            self,
            shared.methods,
            budget=shared.budget,
            limits=shared.limits,
            clock=loop.time,
            stopwatch=shared.stopwatch,
        )
        self._outbox = self.connection.outbox
        self._keepalive = Keepalive(
            shared.patience, self.connection, call_later=self.call_later, give_up=self.abort
        )
        self._rest = b""
        """Of what was read: waits for another turn of the loop."""
        self._is_woken = False
        self._is_closing = False
        self._abort_timer: Timer | None = None
        """Due when what was written is not read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's inherits from nothing
        self._transport = transport
        self._shared.arriving.discard(self)
        if self._shared.is_stopping:
            self.abort()  # its handshake ended after the port was closed
            return
        self._shared.connections[self] = None
        tls: SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self.abort()  # RFC 9113 §3.2
            return
        read_in_turns(tls, self._give_way)
        transport.set_write_buffer_limits(high=_HIGH_WATER, low=_LOW_WATER)
        self.connection.open()
        self._keepalive.start()

    def data_received(self, data: bytes) -> None:
        self._keepalive.heard = True
        if self._rest:
            self._rest += data  # delivered although reading was paused
            return
        self._rest = self.connection.receive(data)
        self._flush()
        if self._rest:
            self._transport.pause_reading()
            self._loop.call_soon(self._take_rest)

    def pause_writing(self) -> None:
        self._outbox.is_paused = True
        if self._abort_timer is None:
            self._abort_within(self._shared.patience.unread_seconds)

    def resume_writing(self) -> None:
        self._outbox.is_paused = False
        if not self._is_closing:
            self._keep()
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._keepalive.stop()
        self._keep()
        self.connection.lost()
        connections = self._shared.connections
        connections.pop(self, None)
        if not connections:
            self._shared.on_empty()

    def wake(self) -> None:
        """Write what is there in the next turn of the loop."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._flush_woken)

    def close(self) -> None:
        """Close once everything has been written, or the peer does not read it."""
        self._is_closing = True
        self.wake()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """As the loop does."""
        return self._loop.call_later(seconds, callback)

    def _give_way(self) -> None:
        """Let others have their turn before more is read."""
        self._transport.pause_reading()
        self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._rest and not self._transport.is_closing():
            self._transport.resume_reading()

    def _take_rest(self) -> None:
        """Go on with what was read, when others have had their turn."""
        if self._transport.is_closing():
            self._rest = b""
            return
        self._rest = self.connection.receive(self._rest)
        self._flush()
        if self._rest:
            self._loop.call_soon(self._take_rest)
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def _flush_woken(self) -> None:
        self._is_woken = False
        self._flush()

    def _flush(self) -> None:
        output = self._outbox.take()
        if self._transport.is_closing():
            return
        if output:
            self._transport.write(output)
        if self._is_closing:
            self._keepalive.stop()
            self._transport.close()
            self._abort_within(_SECONDS_TO_CLOSE)
        elif self._outbox.has_more:
            self.wake()

    def _abort_within(self, seconds: float) -> None:
        self._keep()
        self._abort_timer = self._loop.call_later(seconds, self._transport.abort)

    def _keep(self) -> None:
        if self._abort_timer is not None:
            self._abort_timer.cancel()
            self._abort_timer = None
