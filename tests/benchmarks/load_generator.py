"""The load generator of loadgen/: builds it, runs it, reads what it found."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.benchmarks.recordings import recording

FOLDER = Path(__file__).parent / "loadgen"


class LoadError(Exception):
    """The load generator could not do its work, or requests failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the generator found, and what the kernel told it of the server."""

    requests: float
    """Also parts of those that were open when measuring began or ended."""
    picks: int
    seconds: float
    pick_p50_ms: float
    pick_p99_ms: float
    cpu_seconds: float
    own_cpu_seconds: float
    rss_bytes: int
    scrapes: int

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Of the requests."""

    body_kib: int = 1
    chunks: int = 5
    streams: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Of the load."""

    port: int
    pid: int
    tls: bool
    scrapes: Path
    """What counts the pages of metrics it has read."""


class LoadGenerator:
    """Sends requests to one server after the other."""

    def __init__(self, folder: Path) -> None:
        self._program = build()
        self._folder = folder
        self._recorded: Callable[[int, int], Path] = cache(self._record)

    def run(self, target: Target, shape: Shape, *, seconds: float, warm_up: float) -> Load:
        """Load a server; raises LoadError when any request fails."""
        command = [str(self._program), f"-address=127.0.0.1:{target.port}", f"-pid={target.pid}"]
        command += [f"-tls={str(target.tls).lower()}", f"-scrapes={target.scrapes}"]
        command += [f"-traffic={self._recorded(shape.body_kib, shape.chunks)}"]
        command += [f"-streams={shape.streams}"]
        command += [f"-duration={seconds}s", f"-warm-up={warm_up}s"]
        return read(_output(command))

    def _record(self, body_kib: int, chunks: int) -> Path:
        file = self._folder / f"traffic-{body_kib}-{chunks}.json"
        file.write_text(recording(body_kib * 1024, chunks))
        return file


def build() -> Path:
    """The program, built if it is not there."""
    return Path(_output([str(FOLDER / "build.sh")]).strip())


def read(output: str) -> Load:
    """The generator's report; raises LoadError when it tells of failed requests, or of none."""
    report: dict[str, Any] = json.loads(output)
    errors, first = report.pop("errors"), report.pop("first_error")
    if errors or not report["requests"]:
        raise LoadError(f"{errors} requests failed, {report['requests']} did not: {first}")
    return Load(**report)


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoadError(done.stderr.strip() or f"{command[0]} failed")
    return done.stdout
