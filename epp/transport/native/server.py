"""One listening port of the native transport."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from functools import partial

from epp.framework.errors import PortTaken
from epp.transport.native.budgets import HeldBytes
from epp.transport.native.keepalive import KeepaliveTimes
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.native.protocol import NativeProtocol, Shared
from epp.transport.native.tls import ServerTls

MAX_HELD_BYTES = 1 << 30
_BACKLOG = 1024
_HANDSHAKE_SECONDS = 10.0
_SHUTDOWN_SECONDS = 1.0


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
        limits: ConnectionLimits | None = None,
        keepalive: KeepaliveTimes | None = None,
    ) -> None:
        self._address = address.strip("[]")
        self._port = port
        self._port_flag = port_flag
        self._tls = tls
        self._held = HeldBytes(max_held_bytes)
        self._all_gone = asyncio.Event()
        self._shared = Shared(
            methods={method.path.encode(): method for method in methods},
            held=self._held,
            limits=limits or ConnectionLimits(),
            keepalive=keepalive or KeepaliveTimes(),
            on_empty=self._all_gone.set,
        )
        self._server: asyncio.Server | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of half-received messages and of answers that are not read."""
        return self._held.used

    async def start(self) -> int:
        """Listen and serve; return the port, which port 0 leaves to the system."""
        listening = self._listen()
        loop = asyncio.get_running_loop()
        has_tls = self._tls is not None
        self._server = await loop.create_server(
            partial(NativeProtocol, self._shared, loop),
            sock=listening,
            backlog=_BACKLOG,
            ssl=self._tls.context if self._tls is not None else None,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if has_tls else None,
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS if has_tls else None,
        )
        port: int = listening.getsockname()[1]
        return port

    async def stop(self, grace: float) -> None:
        """Accept no more streams, wait up to `grace` seconds for open ones, then cut them."""
        if self._server is None:
            return
        self._server.close()
        self._shared.is_stopping = True
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
            return self._bind()
        except OSError as error:
            raise PortTaken(
                f"{self._port_flag}: can't listen on {self._address}:{self._port}"
                f" ({error.strerror}); another process may use the port"
            ) from error

    def _bind(self) -> socket.socket:
        address = self._address
        if ":" not in address:
            return socket.create_server((address, self._port), backlog=_BACKLOG)
        dual = address == "::" and socket.has_dualstack_ipv6()
        if address == "::" and not dual:
            return socket.create_server(("0.0.0.0", self._port), backlog=_BACKLOG)
        return socket.create_server(
            (address, self._port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=dual
        )
