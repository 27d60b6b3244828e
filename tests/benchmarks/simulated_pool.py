"""A pool of endpoints that have metrics pages and nothing else, as files for Endpoint Pickers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks import cores
from tests.fakes.programs import Program

PAGE_BYTES = 17_000
_MANIFEST = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool, namespace: default}
spec:
  selector: {matchLabels: {app: model-server}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: epp, port: {number: 9002}, failureMode: FailClose}
---
"""


@contextmanager
def simulated_pool(endpoints: int, folder: Path) -> Iterator[dict[str, str]]:
    """Serve the pages until the block is left; yields {pool} and {endpoints}."""
    command = [sys.executable, "-m", "tests.benchmarks.page_servers", str(endpoints)]
    program = Program("page servers", [*command, str(PAGE_BYTES)], folder / "page-servers.log")
    with cores.starting_on(cores.OF_CLIENTS):
        program.start()
    try:
        ports = program.wait_for_line("ports").split()[1:]
        yield {"pool": _written(folder, ports, _MANIFEST), "endpoints": _written(folder, ports)}
    finally:
        program.kill()


def _written(folder: Path, ports: Sequence[str], manifest: str = "") -> str:
    """The file of a pool, or of endpoints alone, as the plugin file-discovery reads it."""
    lines = [
        f"- {{name: e{number}, namespace: default, address: 127.0.0.1, port: '{port}',"
        " labels: {app: model-server}}\n"
        for number, port in enumerate(ports)
    ]
    file = folder / ("pool.yaml" if manifest else "endpoints.yaml")
    file.write_text(f"{manifest}endpoints:\n{''.join(lines)}")
    return str(file)
