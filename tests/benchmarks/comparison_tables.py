"""What a comparison found, as tables in markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.comparison import Case, Sample, Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Cases that differ in one thing."""

    name: str
    title: str
    cases: dict[str, Case]
    """By what tells them apart."""


def tables(families: Sequence[Family], servers: Sequence[str], samples: Samples) -> str:
    """One table of each family; `ratio` is to the last server's CPU."""
    return "\n\n".join("\n".join(_table(family, servers, samples)) for family in families)


def _table(family: Family, servers: Sequence[str], samples: Samples) -> Iterator[str]:
    yield (
        f"| {family.title} | server | CPU us per request | ratio | pick p50, ms | p99 | requests/s"
        " | scrapes/s | us per scrape | MB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, case in family.cases.items():
        for server in servers:
            taken, yardstick = samples[case, server], samples[case, servers[-1]]
            cells = [*_price(taken, yardstick), *_cells(taken)]
            yield f"| {name} | {server} | {' | '.join(cells)} |"


def _price(taken: Sequence[Sample], yardstick: Sequence[Sample]) -> tuple[str, str]:
    if not is_telling(taken):
        return "-", "-"
    price = f"{median(cpu(taken)):,.0f}"
    if not is_telling(yardstick):
        return price, "-"
    return price, f"{paired_ratio(cpu(taken), cpu(yardstick)):.2f}"


def _cells(taken: Sequence[Sample]) -> Iterator[str]:
    def middle(value: Callable[[Sample], float]) -> float:
        return median(map(value, taken))

    picked = [sample.load for sample in taken if sample.load.picks]
    yield f"{median(load.pick_p50_ms for load in picked):.1f}" if picked else "-"
    yield f"{median(load.pick_p99_ms for load in picked):.1f}" if picked else "-"
    yield f"{middle(lambda sample: sample.load.per_second):,.0f}"
    yield f"{middle(lambda sample: sample.load.scrapes / sample.load.seconds):,.0f}"
    idle = taken[0].idle
    yield f"{idle.cpu_seconds / idle.scrapes * 1e6:.0f}" if idle.scrapes else "-"
    yield f"{middle(lambda sample: sample.load.rss_bytes) / 1e6:.0f}"


def further_chunks(short: Case, long: Case, servers: Sequence[str], samples: Samples) -> str:
    """What a response chunk more costs each server."""
    more = long.shape.chunks - short.shape.chunks

    def each(server: str) -> list[float]:
        pairs = zip(cpu(samples[short, server]), cpu(samples[long, server]), strict=True)
        return [(b - a) / more for a, b in pairs]

    lines = ["| each further response chunk | CPU us | ratio |", "|---|---|---|"]
    lines += [
        f"| {server} | {median(each(server)):.1f} |"
        f" {paired_ratio(each(server), each(servers[-1])):.2f} |"
        for server in servers
    ]
    return "\n".join(lines)


def cpu(taken: Sequence[Sample]) -> list[float]:
    """Microseconds per request of each round."""
    return [sample.microseconds for sample in taken]


def is_telling(taken: Sequence[Sample]) -> bool:
    """Whether every round can tell what a request costs."""
    return all(sample.is_telling for sample in taken)


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the rounds' ratios: what slows a round down slows both."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))
