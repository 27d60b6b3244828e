"""`epp serve` as a process: how it ends."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.fakes.programs import Program

SCRIPT = """
import threading
from pathlib import Path
from epp.app.serve import serve
from tests.fakes.applications import options_for_tests

threading.Thread(target=threading.Event().wait, daemon={is_daemon}, name="stubborn").start()
options = options_for_tests(pool_file=Path({pool!r}), shutdown_grace=1.0)
raise SystemExit(serve(options, margin_seconds=1.0))
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
