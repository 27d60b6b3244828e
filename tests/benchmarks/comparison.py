"""Several Endpoint Pickers under the same load, in turns."""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks import cores
from tests.benchmarks.contenders import Contender, Idle, Server, running
from tests.benchmarks.load_generator import Load, LoadGenerator, Shape
from tests.benchmarks.simulated_pool import simulated_pool

MOST_SCRAPING = 0.6
"""Of a server's time: beyond, an error of a tenth in its price is one of a quarter in requests'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A load, and the pool it meets."""

    shape: Shape = field(default_factory=Shape)
    endpoints: int = 3
    tls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to look."""

    rounds: int
    seconds: float
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn of one server."""

    load: Load
    idle: Idle

    @property
    def microseconds(self) -> float:
        """CPU of a request, without what the server spends anyway."""
        return (self.load.cpu_seconds - self._spent_anyway) / self.load.requests * 1e6

    @property
    def is_telling(self) -> bool:
        """Whether requests took enough of the time to be told from scraping."""
        return self._spent_anyway < MOST_SCRAPING * self.load.cpu_seconds

    @property
    def _spent_anyway(self) -> float:
        # A busy server scrapes later than it should: what it saves there is not to its credit.
        if self.idle.scrapes:
            part = self.load.scrapes / self.idle.scrapes
        else:
            part = self.load.seconds / self.idle.seconds
        return part * self.idle.cpu_seconds


Samples = dict[tuple[Case, str], list[Sample]]


def compare(
    contenders: Sequence[Contender], cases: Sequence[Case], pace: Pace, folder: Path
) -> Samples:
    """All samples, one of each round; contenders run in turns, paused in between."""
    samples: Samples = defaultdict(list)
    with cores.starting_on(cores.OF_CLIENTS):
        generator = LoadGenerator(folder)
        # Servers are started anew for each pool, and for TLS.
        for endpoints, tls in sorted({(case.endpoints, case.tls) for case in cases}):
            alike = [case for case in cases if (case.endpoints, case.tls) == (endpoints, tls)]
            own_folder = Path(tempfile.mkdtemp(dir=folder))
            with ExitStack() as stack:
                pool = stack.enter_context(simulated_pool(endpoints, own_folder))
                servers = [
                    stack.enter_context(running(contender, pool, own_folder, tls=tls))
                    for contender in contenders
                ]
                _in_turns(servers, alike, pace, generator, samples)
    return samples


def _in_turns(
    servers: Sequence[Server],
    cases: Sequence[Case],
    pace: Pace,
    generator: LoadGenerator,
    samples: Samples,
) -> None:
    idle: dict[str, Idle] = {}
    for server in servers:
        server.wait_until_it_picks(generator)
        server.pause()
    for server in servers:
        with server.turn():
            idle[server.name] = server.idle(pace.idle_seconds)
    for _ in range(pace.rounds):
        for case in cases:
            for server in servers:
                with server.turn():
                    load = server.load(generator, case.shape, pace.seconds)
                samples[case, server.name].append(Sample(load, idle[server.name]))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
