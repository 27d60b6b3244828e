"""`epp serve` as a process of its own, on ports of the system's choice, and its vital signs."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.metrics.samples import sum_of
from tests.fakes.pool_files import MANIFEST
from tests.fakes.programs.process_stats import open_files, resident_bytes, threads
from tests.fakes.programs.program import Program

_POOL = f"""\
{MANIFEST}endpoints:
- {{name: a, address: 127.0.0.1, port: 8000}}
- {{name: b, address: 127.0.0.1, port: 8001}}
- {{name: c, address: 127.0.0.1, port: 8002}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalSigns:
    """What a process holds at one moment."""

    streams: int
    in_flight: int
    running: int
    buffered_bytes: int
    tasks: int
    threads: int
    open_files: int
    resident_bytes: int

    @property
    def nothing_is_held(self) -> bool:
        """Whether every gauge of streams and requests is back at zero."""
        return not (self.streams or self.in_flight or self.running or self.buffered_bytes)


class ServingPicker(Program):
    """A running `epp serve`."""

    def __init__(self, folder: Path, flags: Sequence[str] = (), pool: str = _POOL) -> None:
        self.pool_file = folder / "pool.yaml"
        self.pool_file.write_text(pool)
        command = [sys.executable, "-m", "epp", "serve", f"--pool-file={self.pool_file}"]
        command += ["--bind-address=127.0.0.1", "--grpc-port=0", "--grpc-health-port=0"]
        command += ["--metrics-port=0", "--admin-port=0", "--secure-serving=false"]
        command += ["--enable-grpc-stream-metrics", "--drain-timeout=0s", *flags]
        super().__init__("epp", command, folder / "epp.log")
        self.ext_proc_port = 0
        self.health_port = 0
        self._metrics_port = 0
        self._admin_port = 0

    def start(self) -> None:
        super().start()
        told = json.loads(self.wait_for_line('"serving"'))
        self.ext_proc_port = told["ext_proc_port"]
        self.health_port = told["health_port"]
        self._metrics_port = told["metrics_port"]
        self._admin_port = told["admin_port"]

    def metrics_page(self) -> str:
        """What a scraper gets."""
        return _read(self._metrics_port, "/metrics")

    def pool_page(self) -> dict[str, Any]:
        """What the admin port tells of the pool."""
        page: dict[str, Any] = json.loads(_read(self._admin_port, "/pool"))
        return page

    def vital_signs(self) -> VitalSigns:
        """Read the metrics page and what the kernel knows."""
        page = self.metrics_page()

        def count(name: str) -> int:
            return int(sum_of(page, name))

        return VitalSigns(
            streams=count("llm_d_epp_extproc_streams_inflight"),
            in_flight=count("epp_requests_in_flight"),
            running=count("llm_d_epp_request_running"),
            buffered_bytes=count("epp_buffered_bytes"),
            tasks=count("epp_asyncio_tasks"),
            threads=threads(self.pid),
            open_files=open_files(self.pid),
            resident_bytes=resident_bytes(self.pid),
        )


def _read(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        text: str = answer.read().decode()
    return text


@contextmanager
def serving_picker(
    folder: Path, flags: Sequence[str] = (), pool: str = _POOL
) -> Iterator[ServingPicker]:
    """Serve until the block is left."""
    picker = ServingPicker(folder, flags, pool)
    picker.start()
    try:
        yield picker
    finally:
        picker.kill()
