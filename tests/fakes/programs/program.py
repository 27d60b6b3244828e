"""Programs run as processes of their own, by tests that kill, pause and start them again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

DEADLINE_SECONDS = 30.0
POLL_SECONDS = 0.02
ROOT = Path(__file__).parents[3]


def wait_until(
    claim: Callable[[], bool],
    what: str,
    program: Program | None = None,
    *,
    poll_seconds: float = POLL_SECONDS,
) -> None:
    """Poll until `claim` holds; fails with the program's output when it never does."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not claim():
        output = "" if program is None else f"; output of {program.name}:\n{program.output()}"
        if time.monotonic() > deadline:
            raise AssertionError(f"still waiting for {what}{output}")
        if program is not None and not program.is_running:
            raise AssertionError(f"{program.name} ended before {what}{output}")
        time.sleep(poll_seconds)


class Program:
    """One process in a session of its own, with its output in a file."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, folder: Path | None = None
    ) -> None:
        self.name = name
        self._command = list(command)
        self._log = log
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, again if need be; its output goes on in the same file."""
        assert not self.is_running
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def output(self) -> str:
        """Everything it has printed."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def wait_for_line(self, text: str) -> str:
        """The first line of output that contains `text`, once there is one."""
        wait_until(lambda: any(text in line for line in self._lines()), f"{text!r}", self)
        return next(line for line in self._lines() if text in line)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process itself, not to its children."""
        os.kill(self.pid, number)

    def pause(self) -> None:
        """Stop it from running without ending it."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run after `pause`."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, paused or not."""
        if self.is_running:
            self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """End it as an orchestrator does; returns its exit code."""
        if self.is_running:
            self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its exit code, once it has ended; it is killed when it does not end."""
        if self._process is None:
            return 0
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            return self._process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self.name} did not end; output:\n{self.output()}") from None

    def _lines(self) -> list[str]:
        # A line that is still being written is not one.
        return self.output().split("\n")[:-1]


def children_of(parent: int) -> list[int]:
    """Processes another one has started."""
    return [pid for pid, ppid, _ in _processes() if ppid == parent]


def is_alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    return any(each == pid and state != "Z" for each, _, state in _processes())


def _processes() -> Iterator[tuple[int, int, str]]:
    """Ids of process and parent, and the state, of every process of this machine."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        yield int(entry.name), int(parent), state
