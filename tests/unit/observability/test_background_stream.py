"""A stream whose reader may stall."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from epp.observability.background_stream import BackgroundStream


@pytest.fixture
def pipe() -> Iterator[tuple[io.FileIO, io.TextIOWrapper]]:
    """Both ends of a pipe."""
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as reader, open(writing, "w") as writer:
        yield reader, writer


def read_lines(reader: io.FileIO, last: bytes) -> list[bytes]:
    """Everything up to the line `last`."""
    text = b""
    while not text.endswith(last + b"\n"):
        text += reader.read(65_536) or b""
    return text.splitlines()


def test_lines_come_in_order(pipe: tuple[io.FileIO, io.TextIOWrapper]) -> None:
    reader, writer = pipe
    stream = BackgroundStream(writer)

    for number in range(1000):
        stream.write(f"{number}\n")

    assert read_lines(reader, b"999") == [b"%d" % number for number in range(1000)]
    stream.close()


def test_a_reader_that_stalls_costs_lines_and_no_time(
    pipe: tuple[io.FileIO, io.TextIOWrapper],
) -> None:
    reader, writer = pipe
    stream = BackgroundStream(writer, max_pending_bytes=200_000)
    line = "x" * 999 + "\n"

    with capture_logs() as logs:
        for _ in range(1000):  # a megabyte; the pipe holds 64 KiB
            stream.write(line)
        kept = 0
        os.set_blocking(reader.fileno(), False)
        while not logs:
            kept += len(reader.read(65_536) or b"")
        os.set_blocking(reader.fileno(), True)
        stream.write("end\n")
        rest = read_lines(reader, b"end")

    [warning] = logs
    assert warning["event"] == "lines lost, nobody read them fast enough"
    assert kept + sum(len(each) + 1 for each in rest) - len("end\n") == (
        len(line) * (1000 - warning["lines"])
    )
    stream.close()


def test_closing_does_not_wait_for_a_reader_that_stalls(
    pipe: tuple[io.FileIO, io.TextIOWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epp.observability.background_stream.CLOSE_SECONDS", 0.01)
    reader, writer = pipe
    stream = BackgroundStream(writer)
    stream.write("x" * 500_000 + "\n")

    stream.close()

    assert read_lines(reader, b"x")


def test_closing_writes_what_is_pending(pipe: tuple[io.FileIO, io.TextIOWrapper]) -> None:
    reader, writer = pipe
    stream = BackgroundStream(writer)
    stream.write("a line\n")

    stream.close()
    writer.close()

    assert reader.readall() == b"a line\n"


def test_draining_writes_what_is_pending_and_takes_more(
    pipe: tuple[io.FileIO, io.TextIOWrapper],
) -> None:
    reader, writer = pipe
    stream = BackgroundStream(writer)
    os.set_blocking(reader.fileno(), False)

    for line in (b"a line\n", b"another\n"):
        stream.write(line.decode())
        stream.drain()

        assert reader.read(100) == line
    stream.close()


def test_draining_does_not_wait_for_a_reader_that_stalls(
    pipe: tuple[io.FileIO, io.TextIOWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epp.observability.background_stream.CLOSE_SECONDS", 0.01)
    reader, writer = pipe
    stream = BackgroundStream(writer)
    stream.write("x" * 500_000 + "\n")

    stream.drain()

    assert read_lines(reader, b"x")
    stream.close()


def test_a_reader_that_left_costs_the_lines_only(pipe: tuple[io.FileIO, io.TextIOWrapper]) -> None:
    reader, writer = pipe
    stream = BackgroundStream(writer)
    reader.close()

    stream.write("a line\n")
    stream.close()
