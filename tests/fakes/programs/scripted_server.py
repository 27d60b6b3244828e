"""A model server in the test's own process that answers as the test tells it, step by step."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Self

from epp.standalone.envoy_clusters import Address
from tests.fakes.programs.program import DEADLINE_SECONDS

EVENT_STREAM = {"content-type": "text/event-stream"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it arrived."""

    method: str
    path: str
    headers: Message
    body: bytes
    trailers: Mapping[str, str]


class Reply:
    """One answer, sent piece by piece at once."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler

    def whole(self, body: bytes = b"{}", status: int = 200) -> None:
        """An answer of known length."""
        self._head(status, {"content-type": "application/json", "content-length": str(len(body))})
        if self._handler.command != "HEAD":
            self._handler.wfile.write(body)

    def start(self, headers: Mapping[str, str], status: int = 200) -> None:
        """The headers of a chunked answer."""
        self._head(status, {**headers, "transfer-encoding": "chunked"})

    def piece(self, data: bytes) -> None:
        """One more piece of a chunked answer."""
        self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        """The end of a chunked answer."""
        self._handler.wfile.write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Break the connection as a dying process does."""
        connection = self._handler.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._handler.close_connection = True

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()


POLL_SECONDS = 0.05
"""How long a server of the standard library may take to notice that it is to end; else 0.5."""
Script = Callable[[Received, Reply], None]


def answer_ok(request: Received, reply: Reply) -> None:
    """The script of a server that nothing was told."""
    reply.whole()


class ScriptedServer:
    """Runs a script for every request. A context that ends with the server closed."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.script: Script = answer_ok
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler_type())
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True
        )

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._server.server_port)

    def forget(self) -> None:
        """Be as new: nothing received, every request answered with 200."""
        self.received.clear()
        self.script = answer_ok

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.socket.close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body, trailers = _read_body(handler.rfile, handler.headers)
        request = Received(
            method=handler.command,
            path=handler.path,
            headers=handler.headers,
            body=body,
            trailers=trailers,
        )
        reply = Reply(handler)
        if request.path == "/metrics":
            reply.whole(b"", status=404)
            return
        self.received.append(request)
        self.script(request, reply)

    def _handler_type(self) -> type[BaseHTTPRequestHandler]:
        serve = self._serve

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                try:
                    serve(self)
                except ConnectionError:
                    self.close_connection = True

            do_GET = do_HEAD = do_POST = do_DELETE = do_any  # noqa: N815 - names of the library

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


class Gate:
    """Closed until it is opened; whoever passes waits for that."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def wait(self) -> None:
        """Fails rather than wait for ever."""
        assert self._opened.wait(DEADLINE_SECONDS), "nobody opened the gate"


def _read_body(stream: BufferedIOBase, headers: Message) -> tuple[bytes, dict[str, str]]:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return stream.read(int(headers.get("content-length", "0"))), {}
    pieces = []
    while size := int(stream.readline().split(b";")[0], 16):
        pieces.append(stream.read(size))
        stream.readline()
    trailers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode().partition(":")
        trailers[name.strip().lower()] = value.strip()
    return b"".join(pieces), trailers
