"""`epp serve` as a process of its own, on ports of the system's choice, and its vital signs."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.process_stats import open_files, resident_bytes
from tests.fakes.programs import Program

_POOL = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool, namespace: default}
spec:
  selector: {matchLabels: {app: model-server}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: epp, port: {number: 9002}, failureMode: FailClose}
---
endpoints:
- {name: a, address: 127.0.0.1, port: 8000}
- {name: b, address: 127.0.0.1, port: 8001}
- {name: c, address: 127.0.0.1, port: 8002}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalSigns:
    """What a process holds at one moment."""

    streams: int
    in_flight: int
    running: int
    buffered_bytes: int
    open_files: int
    resident_bytes: int


class ServingPicker(Program):
    """A running `epp serve`."""

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        pool_file = folder / "pool.yaml"
        pool_file.write_text(_POOL)
        command = [sys.executable, "-m", "epp", "serve", f"--pool-file={pool_file}"]
        command += ["--bind-address=127.0.0.1", "--grpc-port=0", "--grpc-health-port=0"]
        command += ["--metrics-port=0", "--admin-port=0", "--secure-serving=false"]
        command += ["--enable-grpc-stream-metrics", "--drain-timeout=0s", *flags]
        super().__init__("epp", command, folder / "epp.log")
        self.ext_proc_port = 0
        self._metrics_port = 0

    def start(self) -> None:
        super().start()
        told = json.loads(self.wait_for_line('"serving"'))
        self.ext_proc_port = told["ext_proc_port"]
        self._metrics_port = told["metrics_port"]

    def vital_signs(self) -> VitalSigns:
        """Read the metrics page and what the kernel knows."""
        url = f"http://127.0.0.1:{self._metrics_port}/metrics"
        with urllib.request.urlopen(url) as answer:
            page = answer.read().decode()
        return VitalSigns(
            streams=_sum(page, "llm_d_epp_extproc_streams_inflight"),
            in_flight=_sum(page, "epp_requests_in_flight"),
            running=_sum(page, "llm_d_epp_request_running"),
            buffered_bytes=_sum(page, "epp_buffered_bytes"),
            open_files=open_files(self.pid),
            resident_bytes=resident_bytes(self.pid),
        )


def _sum(page: str, name: str) -> int:
    """Sum of all series of a gauge."""
    return sum(
        int(float(line.rpartition(" ")[2]))
        for line in page.splitlines()
        if line.startswith((f"{name} ", f"{name}{{"))
    )


@contextmanager
def serving_picker(folder: Path, flags: Sequence[str] = ()) -> Iterator[ServingPicker]:
    """Serve until the block is left."""
    picker = ServingPicker(folder, flags)
    picker.start()
    try:
        yield picker
    finally:
        picker.kill()
