"""Commands that ask an admin port, where somebody else answers, or a picker of another version."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest

from epp.cli.main import main
from tests.fakes.programs.scripted_server import Received, Reply, ScriptedServer

COMMANDS = (["pool", "show"], ["explain"], ["explain", "some-request"])
NOT_AN_ADMIN_PORT = "is not the admin port of an Endpoint Picker, or is that of another version"


@pytest.fixture(scope="module")
def started() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def server(started: ScriptedServer) -> ScriptedServer:
    started.forget()
    return started


def answer(content: bytes, status: int = 200) -> Callable[[Received, Reply], None]:
    return lambda _, reply: reply.whole(content, status)


def without_end(_request: Received, reply: Reply) -> None:
    piece = b" " * (1 << 20)
    with contextlib.suppress(ConnectionError):
        reply.start({"content-type": "application/json"})
        while True:
            reply.piece(piece)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "script",
    [
        answer(b""),
        answer(b"\xff\xfe"),
        answer(b"[" * 100_000),
        answer(b'{"pool": 1, "size": "x"}'),
        answer(b"<html>", 500),
        answer(b'{"error": {"code": 3}}', 404),
        without_end,
    ],
    ids=["nothing", "no text", "nested", "another page", "HTML", "another error", "endless"],
)
def test_an_answer_that_is_no_pickers_is_told_in_a_line(
    server: ScriptedServer,
    script: Callable[[Received, Reply], None],
    command: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.script = script

    assert main([*command, "--admin", str(server.address)]) == 1

    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(NOT_AN_ADMIN_PORT)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_an_error_quotes_reaches_no_terminal_as_it_is(
    server: ScriptedServer, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = answer(json.dumps({"error": "\x1b[2Jgone \u202e"}).encode(), 404)

    assert main([*command, "--admin", str(server.address)]) == 1

    assert capsys.readouterr().err.endswith("\\x1b[2Jgone \\u202e\n")


@pytest.mark.parametrize(
    ("request_id", "path"),
    [
        ("..", "/decisions/.."),
        ("a/b?c#d", "/decisions/a%2Fb%3Fc%23d"),
        ("\udcff", "/decisions/%EF%BF%BD"),
        ("x" * 100_000, f"/decisions/{'x' * 256}"),
    ],
    ids=["dots", "delimiters", "no UTF-8", "long"],
)
def test_a_request_is_asked_for_by_the_id_that_the_picker_keeps(
    server: ScriptedServer, request_id: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = answer(b"[]")

    assert main(["explain", request_id, "--admin", str(server.address)]) == 0

    assert [request.path for request in server.received] == [path]


@pytest.mark.parametrize("port", ["0", "65536"])
def test_a_port_that_there_can_not_be_is_a_usage_error(
    port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--admin", f"127.0.0.1:{port}"]) == 2

    assert "is not an address; allowed: HOST:PORT" in capsys.readouterr().err


def test_an_interrupt_ends_a_command_without_a_traceback(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = answer(b"")
    monkeypatch.setattr("sys.stdin", _Interrupted())

    assert main(["explain", "--body", "-", "--admin", str(server.address)]) == 130

    assert capsys.readouterr() == ("", "")


class _Interrupted:
    """Somebody presses Ctrl-C instead of typing."""

    @property
    def buffer(self) -> _Interrupted:
        return self

    def read(self, _most: int) -> bytes:
        raise KeyboardInterrupt
