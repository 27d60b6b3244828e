"""`epp serve` as a process: how it ends, and whom it waits for."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.fakes.programs.program import Program

STALLED = """
import os, signal, sys, threading, time
from pathlib import Path
from epp.app.serve import serve
from tests.fakes.pickers.applications import options_for_tests

reading, writing = os.pipe()
os.set_blocking(writing, False)
try:
    while True:
        os.write(writing, bytes(4096))
except BlockingIOError:  # it is full
    os.set_blocking(writing, True)
sys.stderr = open(writing, "w")

def caught():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("SigCgt:")[2].split()[0], 16)

def end():
    while not caught() >> (signal.SIGTERM - 1) & 1:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end).start()
os._exit(serve(options_for_tests(pool_file=Path({pool!r}))))
"""
SCRIPT = """
import threading
from pathlib import Path
from epp.app.serve import serve
from tests.fakes.pickers.applications import options_for_tests

threading.Thread(target=threading.Event().wait, daemon={is_daemon}, name="stubborn").start()
options = options_for_tests(pool_file=Path({pool!r}), shutdown_grace=1.0)
raise SystemExit(serve(options, margin_seconds=1.0))
"""

OPEN_FILES = """
import os, signal, sys
from pathlib import Path
from epp.app.application import Application
from epp.cli.main import main

start = Application.start

async def started(self):
    await start(self)
    files = [os.readlink(f"/proc/self/fd/{{number}}") for number in range(3)]
    Path({found!r}).write_text(" ".join(files))
    os.kill(os.getpid(), signal.SIGTERM)

Application.start = started
ports = [f"--{{name}}-port=0" for name in ("grpc", "grpc-health", "metrics", "admin")]
sys.argv[1:] = ["serve", "--pool-file={pool}", "--bind-address=127.0.0.1", *ports]
sys.argv += ["--drain-timeout=0s"]
sys.exit(main())
"""


@pytest.mark.parametrize("is_daemon", [True, False])
def test_it_ends_whatever_plugins_have_left_running(tmp_path: Path, is_daemon: bool) -> None:
    pool = tmp_path / "pool.yaml"
    pool.write_text("endpoints: [{name: a, address: 127.0.0.1, port: 1}]")
    script = SCRIPT.format(is_daemon=is_daemon, pool=str(pool))
    program = Program("serve", [sys.executable, "-c", script], tmp_path / "log")
    program.start()
    try:
        program.wait_for_line("serving")
        program.signal(signal.SIGTERM)

        assert program.wait() == (0 if is_daemon else 1)
    finally:
        program.kill()

    assert ("ended by force" in program.output()) is not is_daemon
    assert "Traceback" not in program.output()


def test_it_serves_and_ends_although_nobody_reads_its_log(tmp_path: Path) -> None:
    pool = tmp_path / "pool.yaml"
    pool.write_text("endpoints: [{name: a, address: 127.0.0.1, port: 1}]")
    script = STALLED.format(pool=str(pool))
    program = Program("serve", [sys.executable, "-c", script], tmp_path / "log")
    program.start()
    try:
        assert program.wait() == 0
    finally:
        program.kill()


def test_a_start_that_is_under_way_ends_when_told_to_as_process_1_too(tmp_path: Path) -> None:
    # Process 1 is deaf to what it has no handler for, as others are to what they were to ignore.
    stuck = "import sys\nprint('importing', flush=True)\nsys.stdin.read()\n"
    (tmp_path / "uvloop.py").write_text(stuck)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv[1:] = ['serve',"
        " '--pool-name=p']; from epp.cli.main import main; main()"
    )
    deaf = ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh"]
    program = Program("serve", [*deaf, sys.executable, "-c", script], tmp_path / "log")
    program.start()
    try:
        program.wait_for_line("importing")
        program.signal(signal.SIGTERM)

        assert program.wait() == 128 + signal.SIGTERM
    finally:
        program.kill()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_it_serves_although_its_standard_streams_are_closed(tmp_path: Path, closed: str) -> None:
    pool, found = tmp_path / "pool.yaml", tmp_path / "found"
    pool.write_text("endpoints: [{name: a, address: 127.0.0.1, port: 1}]")
    script = OPEN_FILES.format(pool=str(pool), found=str(found))
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    program = Program("serve", [*shell, sys.executable, "-c", script], tmp_path / "log")
    program.start()
    try:
        assert program.wait() == 0
    finally:
        program.kill()

    assert "socket" not in found.read_text()
