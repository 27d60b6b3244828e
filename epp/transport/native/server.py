"""One listening port of the native transport."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from epp.framework.errors import PortTaken
from epp.transport.acceptor import Acceptor
from epp.transport.crowding import (
    MAX_CONNECTIONS,
    STREAMS_PART,
    HandshakeLimits,
    LimitObserver,
    connections_within,
    unobserved,
)
from epp.transport.listening import listening_socket
from epp.transport.native.budgets import Budget, HeldBytes, OpenStreams
from epp.transport.native.keepalive import Patience
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.native.protocol import NativeProtocol, Shared
from epp.transport.native.tls import ServerTls

MAX_HELD_BYTES = 1 << 30
MAX_STREAMS = 100_000


class NativeServer:
    """Serves methods on a port; without `tls` in plaintext."""

    def __init__(
        self,
        *,
        address: str,
        port: int,
        port_flag: str,
        methods: Sequence[StreamMethod],
        tls: ServerTls | None = None,
        max_held_bytes: int = MAX_HELD_BYTES,
        max_streams: int = MAX_STREAMS,
        max_connections: int = MAX_CONNECTIONS,
        part_of_files: int = STREAMS_PART,
        spares_newest: bool = False,
        limits: ConnectionLimits | None = None,
        patience: Patience | None = None,
        handshakes: HandshakeLimits | None = None,
        observe_limits: LimitObserver = unobserved,
    ) -> None:
        self._address = address.strip("[]")
        self._port = port
        self._port_flag = port_flag
        self._tls = tls
        self._budget = Budget(held=HeldBytes(max_held_bytes), streams=OpenStreams(max_streams))
        self._max_connections = connections_within(max_connections, part_of_files)
        self._patience = patience or Patience()
        self._handshakes = handshakes
        self._observe_limits = observe_limits
        self._all_gone = asyncio.Event()
        self._shared = Shared(
            methods={method.path.encode(): method for method in methods},
            budget=self._budget,
            limits=limits or ConnectionLimits(),
            patience=self._patience,
            on_empty=self._all_gone.set,
            spares_newest=spares_newest,
        )
        self._acceptor: Acceptor[NativeProtocol] | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of half-received messages and of answers that are not read."""
        return self._budget.held.used

    @property
    def open_streams(self) -> int:
        """Streams of all connections."""
        return self._budget.streams.count

    async def start(self) -> int:
        """Listen and serve; return the port, which port 0 leaves to the system."""
        listening = self._listen()
        tls = self._tls
        self._acceptor = Acceptor(
            listening,
            self._shared,
            tls=None if tls is None else lambda: tls.context,
            handshake_seconds=self._patience.handshake_seconds,
            max_connections=self._max_connections,
            handshakes=self._handshakes,
            observe=self._observe_limits,
        )
        self._acceptor.start()
        port: int = listening.getsockname()[1]
        return port

    async def stop(self, grace: float) -> None:
        """Accept no more streams, wait up to `grace` seconds for open ones, then cut them."""
        if self._acceptor is None:
            return
        self._shared.is_stopping = True
        await self._acceptor.aclose()
        connections = self._shared.connections
        for protocol in list(connections):
            protocol.connection.drain()
        try:
            async with asyncio.timeout(grace):
                await self._until_all_are_gone()
        except TimeoutError:
            for protocol in list(connections):
                protocol.connection.cut("the server is shutting down")
        await self._until_all_are_gone()

    async def _until_all_are_gone(self) -> None:
        while self._shared.connections:
            self._all_gone.clear()
            await self._all_gone.wait()

    def _listen(self) -> socket.socket:
        try:
            return listening_socket(self._address, self._port, is_tls=self._tls is not None)
        except OSError as error:
            raise PortTaken(
                f"{self._port_flag}: can't listen on {self._address}:{self._port}"
                f" ({error.strerror}); another process may use the port"
            ) from error
