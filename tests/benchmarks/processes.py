"""Cost of a whole process: its CPU time while a client on the same machine talks gRPC to it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from epp.gateway.service import METHOD
from tests.benchmarks.traffic import Traffic
from tests.fakes.process_stats import cpu_seconds
from tests.fakes.programs import Program

STREAMS_AT_ONCE = 8


class EchoServer(Program):
    """The yardstick as a process of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.echo_server"]
        super().__init__("echo", command, folder / "echo.log")

    @property
    def port(self) -> int:
        return int(self.wait_for_line("port ").split()[1])


@contextmanager
def echo_server(folder: Path) -> Iterator[EchoServer]:
    """Serve until the block is left."""
    server = EchoServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Load:
    """Sends requests to one server and reads every answer."""

    def __init__(self, channel: grpc.aio.Channel, pid: int) -> None:
        self._open: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)
        self._pid = pid

    async def microseconds(self, traffic: Traffic, answers: int, count: int) -> float:
        """The server's CPU time for one of `count` requests; `answers` come before a response."""
        before = cpu_seconds(self._pid)
        share = count // STREAMS_AT_ONCE
        async with asyncio.TaskGroup() as group:
            for _ in range(STREAMS_AT_ONCE):
                group.create_task(self._requests(traffic, answers, share))
        return (cpu_seconds(self._pid) - before) / (share * STREAMS_AT_ONCE) * 1e6

    async def _requests(self, traffic: Traffic, answers: int, count: int) -> None:
        for _ in range(count):
            call = self._open()
            for message in traffic.request:
                await call.write(message)
            for _ in range(answers):
                assert isinstance(await call.read(), bytes)
            for message in traffic.response:
                await call.write(message)
                assert isinstance(await call.read(), bytes)
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK
