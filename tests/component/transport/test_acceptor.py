"""What becomes of connections while the system has no room for them."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest
from structlog.testing import capture_logs

from epp.transport import acceptor
from epp.transport.crowding import ConnectionLimit
from epp.transport.native.frames import PREFACE, SETTINGS, frame
from tests.fakes.transport.listening import listening
from tests.fakes.transport.native_streams import native_server
from tests.fakes.transport.streams import TellingHandler


async def test_connections_that_can_not_be_accepted_wait_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, [errno.EMFILE, errno.ENFILE, errno.ENOBUFS]

    async def accept_later(listener: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise OSError(failures.pop(), "no room")
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", accept_later)
    monkeypatch.setattr(acceptor, "_PAUSE_SECONDS", 0.01)
    seen: list[ConnectionLimit] = []

    with capture_logs() as logs:
        async with listening(native_server(TellingHandler, observe_limits=seen.append)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(PREFACE + frame(SETTINGS, 0, 0))
            assert await reader.read(9) != b""
            writer.transport.abort()

    assert seen == ["resources"] * 3
    (line,) = [line for line in logs if "can't be accepted" in line["event"]]
    assert line["log_level"] == "warning"
