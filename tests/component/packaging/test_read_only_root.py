"""The program as the manifests run it: nothing can be written, and nobody has a home."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fakes.certificates import untrusting
from tests.fakes.programs.program import Program

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[3] / "config/examples/pool.yaml"
READ_ONLY = """\
import errno, os, runpy, sys

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink"}

def refuse(event, arguments):
    is_open = event == "open" and isinstance(arguments[0], (str, bytes))
    if event in CHANGES or is_open and arguments[2] & WRITES and arguments[0] != os.devnull:
        print("refused", event, arguments, file=sys.stderr)
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), arguments[0])

sys.argv[0] = "epp"
sys.addaudithook(refuse)
"""
SERVE = READ_ONLY + 'runpy.run_module("epp", run_name="__main__", alter_sys=True)\n'
WRITE = READ_ONLY + "open(sys.argv[1], 'w')\n"


def on_read_only_root(program: str, *arguments: str) -> list[str]:
    environment = ["env", "HOME=/nonexistent", "TMPDIR=/nonexistent", "PYTHONDONTWRITEBYTECODE=1"]
    return [*environment, sys.executable, "-c", program, *arguments]


@pytest.fixture
def picker(tmp_path: Path) -> Iterator[Program]:
    command = on_read_only_root(SERVE, "serve", f"--pool-file={EXAMPLE}", "--drain-timeout=0s")
    command += ["--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0", "--admin-port=0"]
    command += ["--bind-address=127.0.0.1"]
    program = Program("epp", command, tmp_path / "epp.log")
    program.start()
    yield program
    program.kill()


def test_it_serves_with_its_own_certificate_and_writes_nothing(picker: Program) -> None:
    told = json.loads(picker.wait_for_line('"serving"'))
    context = untrusting()

    with (
        socket.create_connection(("127.0.0.1", told["ext_proc_port"]), timeout=10) as connection,
        context.wrap_socket(connection) as secured,
    ):
        assert secured.selected_alpn_protocol() == "h2"
    page = httpx.get(f"http://127.0.0.1:{told['metrics_port']}/metrics").text
    picker.signal(signal.SIGTERM)

    assert "\nepp_ready 1" in page
    assert picker.wait() == 0
    assert "refused" not in picker.output()


def test_the_root_of_these_tests_is_read_only(tmp_path: Path) -> None:
    program = Program("writer", on_read_only_root(WRITE, str(tmp_path / "x")), tmp_path / "log")
    program.start()

    assert program.wait() == 1
    assert "Read-only file system" in program.output()
    assert not (tmp_path / "x").exists()
