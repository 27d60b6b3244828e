"""A model server's page, served as badly as a test likes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """One answer of known length."""
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join((*lines, "", "")).encode() + body


def chunked(*parts: bytes) -> bytes:
    """One answer in chunks."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The head of the next request; empty: there is none."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


class PageServer:
    """Answers every request with `reply`, or lets `behaviour` have the connection."""

    def __init__(self) -> None:
        self.reply = answer(b"waiting 1\nkv 0.5")
        self.behaviour: Behaviour | None = None
        self.closes = False
        """Whether a connection is closed after each answer."""
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def open_connections(self) -> int:
        return len(self._open)

    async def start(
        self, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, host, port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    def drop_connections(self) -> None:
        """End every connection at once."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def stop(self) -> None:
        """Listen no more, and end every connection."""
        if self._server is not None:
            self._server.close()
            self.drop_connections()
            await self._server.wait_closed()
            self._server = None
        while self._open:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while request := await read_request(reader):
                self.requests.append(request)
                if self.behaviour is not None:
                    await self.behaviour(reader, writer)
                    continue
                writer.write(self.reply)
                await writer.drain()
                if self.closes:
                    break
        except ConnectionError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()


@asynccontextmanager
async def page_server(
    host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[PageServer]:
    """A server that answers until the block ends."""
    server = PageServer()
    await server.start(host, tls=tls)
    try:
        yield server
    finally:
        await server.stop()
