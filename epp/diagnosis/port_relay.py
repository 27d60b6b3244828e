"""A port of this machine that leads to another one, inside TLS that takes any certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from epp.diagnosis.doctor_options import HostPort
from epp.support.tasks import TaskOwner

_PIECE = 1 << 16


class PortRelay:
    """A port of this machine for the while, whose connections lead to the picker.

    grpcio can't be told to take any certificate, as gateways do, and looks names up in a way of
    its own.
    """

    def __init__(self, target: HostPort, tls: ssl.SSLContext | None) -> None:
        self._target = target
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._connections = TaskOwner()
        self.address = HostPort("127.0.0.1", 0)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.address.host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        self.address = HostPort(self.address.host, port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._connections.aclose()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.spawn(self._serve(reader, writer), name="relayed connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with _aborting(writer):
            try:
                far_reader, far_writer = await asyncio.open_connection(*self._target, ssl=self._tls)
            except OSError:
                return
            with _aborting(far_writer):
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pass_on(reader, far_writer))
                    group.create_task(_pass_on(far_reader, writer))


@contextmanager
def _aborting(writer: asyncio.StreamWriter) -> Iterator[None]:
    """Both ways have ended, or nobody wants the rest; some servers never answer TLS's goodbye."""
    try:
        yield
    finally:
        writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()  # once all of it is written
