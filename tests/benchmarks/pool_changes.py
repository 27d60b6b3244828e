"""What changes of a large pool cost, and what they do to picks: part of `make bench`.

How to read the table: docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import quantiles

from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import FailureMode, InferencePool
from epp.datastore.pods import Pod
from epp.framework.headers import Headers
from epp.framework.request import InferenceRequest
from epp.observability.logging import configure_logging
from epp.request_control.candidates import locate_candidates
from epp.support.event_loop import run_in_loop
from tests.fakes.pickers.simple_plan import LeastInFlightScheduler

PODS = 5_000
PORTS = tuple(range(8000, 8008))
CHANGES_PER_SECOND = 200
PICKS = 1_000
PAUSE_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Size:
    """A pool to measure with."""

    pods: int
    ports: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.pods:,} pods x {len(self.ports)} ports"


SIZES = (Size(50, PORTS[:1]), Size(PODS, PORTS[:1]), Size(PODS, PORTS))


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(
        prog="python -m tests.benchmarks.pool_changes", description=__doc__
    ).parse_args()
    configure_logging("error")
    print("| pool | first snapshot, ms | one pod changed, ms |", end="")
    print(f" pick p99, ms | with {CHANGES_PER_SECOND} changes/s | ratio |")
    print("|---|---|---|---|---|---|")
    for size in SIZES:
        print(run_in_loop(row(size)))


async def row(size: Size) -> str:
    """A line of the table."""
    pods = [pod(index) for index in range(size.pods)]
    datastore = Datastore()
    datastore.set_pool(
        InferencePool(
            name="pool",
            namespace="default",
            target_ports=size.ports,
            failure_mode=FailureMode.FAIL_CLOSE,
        )
    )
    started = time.perf_counter()
    datastore.set_pods(pods)
    first = time.perf_counter() - started
    change = seconds_per_change(datastore, pods)
    quiet = await pick_p99(datastore)
    async with asyncio.TaskGroup() as group:
        churn = group.create_task(churning(datastore, pods))
        busy = await pick_p99(datastore)
        churn.cancel()
    return (
        f"| {size} | {first * 1e3:.1f} | {change * 1e3:.2f} |"
        f" {quiet * 1e3:.2f} | {busy * 1e3:.2f} | {busy / quiet:.2f} |"
    )


def pod(index: int) -> Pod:
    """A ready pod with an address of its own."""
    ip = f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"
    return Pod(uid=f"uid-{index}", name=f"pod-{index}", namespace="default", ips=(ip,), ready=True)


def seconds_per_change(datastore: Datastore, pods: Sequence[Pod], changes: int = 100) -> float:
    """Readiness of pods flips, each change published on its own."""
    started = time.perf_counter()
    for index in range(changes):
        flip(datastore, pods[index % len(pods)])
    return (time.perf_counter() - started) / changes


def flip(datastore: Datastore, each: Pod) -> None:
    """A ready pod becomes unready, an unready one ready."""
    ready = f"{each.ips[0]}:{PORTS[0]}" not in datastore.snapshot().by_address
    datastore.upsert_pod(replace(each, ready=ready))


async def churning(datastore: Datastore, pods: Sequence[Pod]) -> None:
    """Change pods at the rate of `CHANGES_PER_SECOND` until cancelled."""
    rng = random.Random(1)
    while True:
        flip(datastore, rng.choice(pods))
        await asyncio.sleep(1 / CHANGES_PER_SECOND)


async def pick_p99(datastore: Datastore) -> float:
    """Seconds from the moment a pick is due to its end, in the loop that also takes changes.

    The gateway names a subset of 20 endpoints: what is measured is the pool, not the scan of it.
    """
    rng = random.Random(2)
    scheduler = LeastInFlightScheduler(rng)
    request = InferenceRequest(id="r", path="/", headers=Headers(), parsed=None)
    hint = [endpoint.address for endpoint in datastore.snapshot().endpoints[:20]]
    samples = []
    due = time.perf_counter()
    for _ in range(PICKS):
        due = max(due, time.perf_counter()) + PAUSE_SECONDS
        await asyncio.sleep(due - time.perf_counter())
        candidates = locate_candidates(datastore.snapshot(), hint)
        if candidates:
            scheduler.schedule(request, candidates)
        samples.append(time.perf_counter() - due)
    return quantiles(samples, n=100)[98]


if __name__ == "__main__":
    main()
