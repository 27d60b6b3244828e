"""What scraping costs this process: `python -m tests.benchmarks.scraping` prints a table.

The servers run in a process of their own, so that only our side is counted: sockets, event loop,
HTTP and the extractor.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from epp.data_layer.data_layer import DataLayer
from epp.data_layer.settings import DataLayerSettings
from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import FailureMode, InferencePool
from epp.datastore.pods import Pod
from epp.observability.logging import configure_logging
from epp.observability.metrics import Metrics
from epp.plugins.extractors.core_metrics import CoreMetricsExtractor
from epp.support.event_loop import run_in_loop
from epp.testing import built
from tests.fakes.data_layer import PageSource
from tests.fakes.programs.program import Program

SECONDS = 4.0
WARM_UP_SECONDS = 2.0
NEVER = 1e9
CASES = [(count, size) for count in (100, 300) for size in (17_000, 60_000)]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of scraping for a while."""

    scrapes: float
    share: float
    oldest: float
    longest_stop: float

    @property
    def microseconds(self) -> float:
        return self.share / self.scrapes * 1e6


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(
        prog="python -m tests.benchmarks.scraping", description=__doc__
    ).parse_args()
    configure_logging("error")
    print("| endpoints | page | pace | scrapes/s | CPU share | us per scrape |", end="")
    print(" oldest data, ms | longest stop of the loop, ms |")
    print("|---|---|---|---|---|---|---|---|")
    for count, size in CASES:
        with servers(count, size) as ports:
            for pace in ("busy", "idle"):
                cost = run_in_loop(measured(ports, is_busy=pace == "busy"))
                print(
                    f"| {count} | {size // 1000} KB | {pace} | {cost.scrapes:.0f} |"
                    f" {cost.share:.1%} | {cost.microseconds:.0f} |"
                    f" {cost.oldest * 1e3:.0f} | {cost.longest_stop * 1e3:.1f} |"
                )


@contextmanager
def servers(count: int, size: int) -> Iterator[Sequence[int]]:
    """Ports of as many servers."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.page_servers", str(count), str(size)]
        program = Program("page servers", command, Path(folder) / "log")
        program.start()
        try:
            yield [int(port) for port in program.wait_for_line("ports").split()[1:]]
        finally:
            program.kill()


async def measured(ports: Sequence[int], *, is_busy: bool) -> Cost:
    """Scrape them all with traffic, or without."""
    datastore = pool_at(ports)
    metrics = Metrics()
    layer = DataLayer(
        datastore,
        [(PageSource(), [built(CoreMetricsExtractor)])],
        metrics=metrics,
        settings=DataLayerSettings(idle_after_seconds=NEVER if is_busy else 0.0),
        rng=random.Random(1),
    )
    layer.start()
    running = asyncio.create_task(layer.run())
    await asyncio.sleep(WARM_UP_SECONDS)
    watch = asyncio.create_task(longest_stop())
    before, cpu, started = scrapes_of(metrics), time.process_time(), time.perf_counter()
    await asyncio.sleep(SECONDS)
    cpu, elapsed = time.process_time() - cpu, time.perf_counter() - started
    scrapes = scrapes_of(metrics) - before
    now = time.monotonic()
    updates = [each.metrics.updated_at for each in datastore.snapshot().endpoints]
    oldest = max(NEVER if at is None else now - at for at in updates)
    assert layer.problem is None, layer.problem
    running.cancel()
    await layer.aclose()
    return Cost(scrapes / elapsed, cpu / elapsed, oldest, await watch)


async def longest_stop() -> float:
    """How late the loop is at worst; looks seldom enough to cost nothing."""
    clock = asyncio.get_running_loop().time
    worst, end = 0.0, clock() + SECONDS * 0.9
    while clock() < end:
        due = clock() + 0.02
        await asyncio.sleep(0.02)
        worst = max(worst, clock() - due)
    return worst


def pool_at(ports: Sequence[int]) -> Datastore:
    """A pod for each port of this machine."""
    datastore = Datastore()
    datastore.set_pool(
        InferencePool(
            name="pool",
            namespace="default",
            target_ports=(8000,),
            failure_mode=FailureMode.FAIL_CLOSE,
        )
    )
    datastore.set_pods(
        Pod(
            uid=f"uid-{port}",
            name=f"pod-{port}",
            namespace="default",
            ips=("127.0.0.1",),
            ready=True,
            fixed_port=port,
        )
        for port in ports
    )
    return datastore


def scrapes_of(metrics: Metrics) -> int:
    """How many pages have come."""
    return sum(metrics.scrapes.duration("page-source").counts)


if __name__ == "__main__":
    main()
