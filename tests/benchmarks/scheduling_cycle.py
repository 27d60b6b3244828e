"""What one scheduling cycle of the default profile costs, and who spends it.

`python -m tests.benchmarks.scheduling_cycle` prints microseconds of CPU, the median of batches.
The parts are calls of the plugins alone; `own` is what the cycle adds to them: clamping, weighing,
checking what plugins return, measuring them and the result. In the last column all endpoints are
equal, so that they take turns.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable
from statistics import median

from epp.framework.data_types import PREFIX_MATCH, PrefixMatch
from epp.framework.endpoint import Endpoint
from epp.framework.request import InferenceRequest
from epp.observability.metrics import Metrics
from epp.plugins.pickers.max_score import MaxScorePicker
from epp.plugins.profile_handlers.single import SingleProfileHandler
from epp.plugins.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.plugins.scorers.prefix_cache import PrefixCacheScorer
from epp.plugins.scorers.queue import QueueScorer
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.scheduler import ProfileScheduler
from epp.testing import built, endpoint_of, put, request_of

SIZES = (10, 100, 1000)
BATCH_SECONDS = 0.02
BLOCKS = 16


class DefaultProfile:
    """The plugins of the default profile and a scheduler made of them, with metrics."""

    def __init__(self) -> None:
        self.scorers = (
            (built(QueueScorer), 2.0),
            (built(KvCacheUtilizationScorer), 2.0),
            (built(PrefixCacheScorer), 3.0),
        )
        self.picker = built(MaxScorePicker)
        metrics = Metrics()
        profile = SchedulerProfile(
            "default", scorers=self.scorers, picker=self.picker, observer=metrics
        )
        handler = built(SingleProfileHandler)
        self.schedule = ProfileScheduler([profile], handler, observer=metrics).schedule


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batches", type=int, default=25)
    batches = arguments.parse_args().batches
    gc.disable()
    print("| endpoints | cycle | queue | kv cache | prefix cache | picker | own | all equal |")
    print("|---|---|---|---|---|---|---|---|")
    for size in SIZES:
        cells = " | ".join(f"{cost:.1f}" for cost in costs(size, batches))
        print(f"| {size} | {cells} |")


def costs(size: int, batches: int) -> list[float]:
    """The cells of a line of the table."""
    default = DefaultProfile()
    endpoints = [busy(number) for number in range(size)]
    request = request_matching(endpoints)
    totals = list(default.schedule(request, endpoints).profiles["default"].totals)
    calls: list[Callable[[], object]] = [lambda: default.schedule(request, endpoints)]
    calls += [
        lambda scorer=scorer: scorer.score(request, endpoints)  # type: ignore[misc] # early binding
        for scorer, _ in default.scorers
    ]
    calls.append(lambda: default.picker.pick(request, endpoints, totals))
    cycle, *parts = (microseconds(call, batches) for call in calls)
    idle = [endpoint_of(f"e{number}") for number in range(size)]
    plain = request_of()
    equal = microseconds(lambda: default.schedule(plain, idle), batches)
    return [cycle, *parts, cycle - sum(parts), equal]


def busy(number: int) -> Endpoint:
    """An endpoint with a load of its own."""
    rng = random.Random(number)
    return endpoint_of(f"e{number}", waiting=rng.randrange(20), kv=rng.random())


def request_matching(endpoints: list[Endpoint]) -> InferenceRequest:
    """A request whose prompt a third of `endpoints` hold in part, as the producer would say it."""
    request = request_of()
    shared = [PrefixMatch(blocks, BLOCKS, 64) for blocks in range(BLOCKS + 1)]
    rng = random.Random(1)
    put(PREFIX_MATCH, request, {endpoint: rng.choice(shared) for endpoint in endpoints[::3]})
    return request


def microseconds(call: Callable[[], object], batches: int) -> float:
    """CPU time of one call."""
    call()
    started = time.perf_counter()
    call()
    times = max(1, int(BATCH_SECONDS / (time.perf_counter() - started)))
    measured = []
    for _ in range(batches):
        gc.collect()
        started = time.process_time()
        for _ in range(times):
            call()
        measured.append((time.process_time() - started) / times * 1e6)
    return median(measured)


if __name__ == "__main__":
    main()
