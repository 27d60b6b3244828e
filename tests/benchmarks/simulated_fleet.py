"""Eight engines behind a picker in virtual time: the same run on any machine, as fast as it can."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, quantiles

from epp.framework.usage import Usage
from epp.library import Picker
from tests.benchmarks.batching_engine import BatchingEngine, Timeline
from tests.benchmarks.pick_workloads import (
    Arrival,
    Chats,
    Mixed,
    Shared,
    Traffic,
    Unrelated,
    arrivals,
)

ENGINES = 8
SCRAPE_SECONDS = 0.05
SECONDS = 20.0
WARM_UP_SECONDS = 4.0
DRAINED_AFTER_SECONDS = 600.0
SLOW = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A kind of traffic, and how much of it the fleet can bear."""

    traffic: Callable[[random.Random], Traffic]
    requests_per_second: float
    """Where one who sees all of the engines gets to a mean of about 1.5 s to the first token."""
    slow_engines: int = 0
    has_adapters: bool = False


WORKLOADS: Mapping[str, Workload] = {
    "shared": Workload(traffic=Shared, requests_per_second=61),
    "chats": Workload(traffic=Chats, requests_per_second=56),
    "unrelated": Workload(traffic=Unrelated, requests_per_second=54),
    "slow-one": Workload(traffic=Mixed, requests_per_second=52, slow_engines=1),
    "lora": Workload(
        traffic=partial(Shared, adapters=12), requests_per_second=52, has_adapters=True
    ),
}
LOADS: Mapping[str, tuple[float, bool]] = {
    "0.6": (0.6, False),
    "0.9": (0.9, False),
    "burst": (0.6, True),
}
CELLS = tuple(f"{workload}/{load}" for workload in WORKLOADS for load in LOADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What clients and model servers saw of one run."""

    ttft_seconds: Sequence[float]
    hit_ratio: float
    failed: int

    @property
    def mean(self) -> float:
        return fmean(self.ttft_seconds)

    @property
    def p95(self) -> float:
        return quantiles(self.ttft_seconds, n=20)[-1]


def pooled(outcomes: Sequence[Outcome]) -> Outcome:
    """Several runs as one."""
    return Outcome(
        ttft_seconds=[each for outcome in outcomes for each in outcome.ttft_seconds],
        hit_ratio=fmean(outcome.hit_ratio for outcome in outcomes),
        failed=sum(outcome.failed for outcome in outcomes),
    )


class Fleet:
    """Sends arrivals where somebody says, and takes the times."""

    def __init__(self, timeline: Timeline, workload: Workload) -> None:
        self._timeline = timeline
        self.engines = {
            f"10.0.0.{number}:8000": BatchingEngine(
                timeline,
                time_factor=SLOW if number <= workload.slow_engines else 1.0,
                has_adapters=workload.has_adapters,
            )
            for number in range(1, ENGINES + 1)
        }
        self._ttft: list[float] = []
        self._open = 0

    def send(
        self,
        arrival: Arrival,
        address: str,
        first_token: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        """Give a request to an engine."""
        self._open += 1

        def first() -> None:
            if arrival.at >= WARM_UP_SECONDS:
                self._ttft.append(self._timeline.now() - arrival.at)
            first_token()

        def end() -> None:
            self._open -= 1
            ended()

        self.engines[address].submit(arrival.work, first, end)

    def outcome(self) -> Outcome:
        """What has been seen."""
        engines = self.engines.values()
        hits = sum(engine.hit_tokens for engine in engines)
        prompts = sum(engine.prompt_tokens for engine in engines)
        return Outcome(ttft_seconds=self._ttft, hit_ratio=hits / prompts, failed=self._open)


def run_picker(cell: str, configuration: str, seed: int, *, seconds: float = SECONDS) -> Outcome:
    """One cell with one configuration, on engines that have seen nothing yet."""
    timeline = Timeline()
    picker = Picker.from_config(configuration, seed=seed, now=timeline.now)
    fleet = Fleet(timeline, _workload(cell))
    for address in fleet.engines:
        picker.add(address)

    def scrape(address: str) -> None:
        picker.observe(address, fleet.engines[address].metrics())
        timeline.at(timeline.now() + SCRAPE_SECONDS, partial(scrape, address))

    def arrive(arrival: Arrival) -> None:
        pick = picker.pick(model=arrival.model, prompt=arrival.prompt)
        usage = Usage(completion_tokens=arrival.work.output_tokens)
        fleet.send(arrival, pick.address, pick.first_token, partial(pick.done, usage=usage))

    for number, address in enumerate(fleet.engines):
        timeline.at(SCRAPE_SECONDS * number / ENGINES, partial(scrape, address))
    _run(timeline, cell_arrivals(cell, seed, seconds), arrive)
    return fleet.outcome()


def cell_arrivals(cell: str, seed: int, seconds: float) -> list[Arrival]:
    """The requests of a cell."""
    workload = _workload(cell)
    share, bursts = LOADS[cell.partition("/")[2]]
    rng = random.Random(f"{cell} {seed}")
    return arrivals(
        workload.traffic(rng),
        rng,
        rate=share * workload.requests_per_second,
        seconds=seconds,
        bursts=bursts,
    )


def _run(
    timeline: Timeline, requests: Sequence[Arrival], arrive: Callable[[Arrival], None]
) -> None:
    for arrival in requests:
        timeline.at(arrival.at, partial(arrive, arrival))
    timeline.run(DRAINED_AFTER_SECONDS)


def _workload(cell: str) -> Workload:
    return WORKLOADS[cell.partition("/")[0]]
