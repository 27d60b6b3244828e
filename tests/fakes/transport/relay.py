"""A TCP relay, to break connections that a client library would end politely."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_PIECE = 64 * 1024


class Relay:
    """Passes bytes between clients and one port until it is told to break."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where clients connect to."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen on a port of the system's choice."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Listen no more and drop what is open."""
        assert self._server is not None
        self._server.close()
        self.break_all(reset=False)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def break_all(self, *, reset: bool) -> None:
        """Close every connection on both sides, with a TCP reset or as if a process had ended."""
        for writer in self._writers:
            if reset:
                linger = struct.pack("ii", 1, 0)
                sock: socket.socket = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._target_port)
        ends = {writer, upstream}
        self._writers |= ends
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, upstream))
                group.create_task(_copy(upstream_reader, writer))
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def relay_to(port: int) -> AsyncIterator[Relay]:
    """A relay in front of a local port."""
    relay = Relay(port)
    await relay.start()
    try:
        yield relay
    finally:
        await relay.stop()
