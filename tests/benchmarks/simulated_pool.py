"""A pool of endpoints that have metrics pages and nothing else, as files for Endpoint Pickers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import cores
from tests.fakes.pool_files import MANIFEST
from tests.fakes.programs.program import Program

PAGE_BYTES = 17_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPool:
    """Files of a pool that is there."""

    manifests: Path
    """An InferencePool and its endpoints."""
    endpoints: Path
    """The endpoints alone, as the plugin file-discovery reads them."""
    scrapes: Path
    """How many pages were served: `page_servers.read_counter`."""


@contextmanager
def simulated_pool(endpoints: int, folder: Path) -> Iterator[SimulatedPool]:
    """Serve the pages until the block is left."""
    scrapes = folder / "scrapes"
    command = [sys.executable, "-m", "tests.benchmarks.page_servers", str(endpoints)]
    command += [str(PAGE_BYTES), str(scrapes)]
    program = Program("page servers", command, folder / "page-servers.log")
    with cores.starting_on(cores.OF_CLIENTS):
        program.start()
    try:
        ports = program.wait_for_line("ports").split()[1:]
        yield SimulatedPool(
            manifests=_written(folder / "pool.yaml", ports, MANIFEST),
            endpoints=_written(folder / "endpoints.yaml", ports),
            scrapes=scrapes,
        )
    finally:
        program.kill()


def _written(file: Path, ports: Sequence[str], manifest: str = "") -> Path:
    lines = [
        f"- {{name: e{number}, namespace: default, address: 127.0.0.1, port: '{port}',"
        " labels: {app: model-server}}\n"
        for number, port in enumerate(ports)
    ]
    file.write_text(f"{manifest}endpoints:\n{''.join(lines)}")
    return file
