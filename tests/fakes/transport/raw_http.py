"""HTTP as client libraries don't let one speak it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPResponse
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, ResponseReceived, StreamEnded

TIMEOUT_SECONDS = 20.0


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    """A TCP connection."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), TIMEOUT_SECONDS) as connection:
        yield connection


async def said_to(port: int, said: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Everything that comes back until the port ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    received = b""
    with suppress(ConnectionError):
        writer.write(said)
        received = await reader.read(-1)
    writer.transport.abort()
    return received


def read_response(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body of the next HTTP/1.1 answer."""
    response = HTTPResponse(connection)
    response.begin()
    return response.status, response.read()


def read_head(connection: socket.socket) -> bytes:
    """Everything up to the next empty line, and no byte more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, f"the connection ended after {head!r}"
        head += byte
    return head


@dataclass(slots=True, kw_only=True)
class Http2Stream:
    """What came on one stream so far."""

    number: int
    status: int = 0
    body: bytes = b""
    ended: bool = False


@dataclass(slots=True)
class Http2Connection:
    """An HTTP/2 client that says what it is told, in the order it is told."""

    connection: socket.socket
    _streams: dict[int, Http2Stream] = field(default_factory=dict)
    _h2: H2Connection = field(default_factory=lambda: H2Connection(H2Configuration()))

    def __post_init__(self) -> None:
        self._h2.initiate_connection()
        self._flush()

    def post(
        self,
        path: str,
        headers: Mapping[str, str],
        *body: bytes,
        trailers: Mapping[str, str] | None = None,
    ) -> Http2Stream:
        """Send a request; bodies must fit into the initial window of 65,535 bytes."""
        number = self._h2.get_next_available_stream_id()
        pseudo = {":method": "POST", ":path": path, ":scheme": "http", ":authority": "test"}
        self._h2.send_headers(number, list({**pseudo, **headers}.items()))
        for piece in body[:-1]:
            self._h2.send_data(number, piece)
        self._h2.send_data(number, body[-1], end_stream=trailers is None)
        if trailers is not None:
            self._h2.send_headers(number, list(trailers.items()), end_stream=True)
        self._flush()
        self._streams[number] = Http2Stream(number=number)
        return self._streams[number]

    def reset(self, stream: Http2Stream) -> None:
        """Give a stream up, as a client does that no longer wants the answer."""
        self._h2.reset_stream(stream.number, ErrorCodes.CANCEL)
        self._flush()

    def receive(self) -> None:
        """Take in what comes next."""
        data = self.connection.recv(65_536)
        assert data, "the connection ended"
        for event in self._h2.receive_data(data):
            if isinstance(event, ResponseReceived):
                status = next(value for name, value in event.headers if name == b":status")
                self._streams[event.stream_id].status = int(status)
            elif isinstance(event, DataReceived):
                self._streams[event.stream_id].body += event.data
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                self._streams[event.stream_id].ended = True
        self._flush()

    def _flush(self) -> None:
        self.connection.sendall(self._h2.data_to_send())
