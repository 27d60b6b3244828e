"""What a request costs between the bytes of its messages and those of its answers, no transport.

A ratio to protobuf decoding and encoding the same: `python -m tests.benchmarks.request_path`.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from statistics import median

from tests.benchmarks import state_machine
from tests.benchmarks.traffic import FULL_DUPLEX, STREAMED, Traffic, traffic

CHUNKS = 5
FURTHER_CHUNKS = 50


@dataclass(slots=True)
class Samples:
    """CPU microseconds of one thing, ours and the yardstick's, one of each per round."""

    ours: list[float] = field(default_factory=list)
    yardstick: list[float] = field(default_factory=list)

    def row(self, name: str) -> str:
        """A line of the table."""
        ratio = median(a / b for a, b in zip(self.ours, self.yardstick, strict=True))
        return f"| {name} | {median(self.ours):.1f} | {median(self.yardstick):.1f} | {ratio:.2f} |"

    def further(self, longer: Samples) -> Samples:
        """What each of the further chunks of `longer` costs."""

        def each(short: Sequence[float], long: Sequence[float]) -> list[float]:
            return [(b - a) / FURTHER_CHUNKS for a, b in zip(short, long, strict=True)]

        return Samples(each(self.ours, longer.ours), each(self.yardstick, longer.yardstick))


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request."""

    kib: int
    mode: str
    chunks: int = CHUNKS

    def traffic(self) -> Traffic:
        return traffic(self.kib * 1024, self.chunks, self.mode)


CASES = [Case(kib, FULL_DUPLEX) for kib in (1, 16, 128)] + [Case(1, STREAMED)]
LONGER = {mode: Case(1, mode, CHUNKS + FURTHER_CHUNKS) for mode in (FULL_DUPLEX, STREAMED)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=21, help="each gives one sample (default: 21)"
    )
    rounds = parser.parse_args().rounds
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()},"
        f" protobuf {version('protobuf')}; {rounds} rounds.\n"
    )
    table(measure(rounds))


def table(samples: dict[Case, Samples]) -> None:
    """Print all cases, and what a chunk more costs in each mode."""
    print("| state machine alone, CPU us | ours | codec only | ratio |\n|---|---|---|---|")
    for case in CASES:
        print(samples[case].row(f"{case.mode}, {case.kib} KiB body, {case.chunks} response chunks"))
    for mode, longer in LONGER.items():
        further = samples[Case(1, mode)].further(samples[longer])
        print(further.row(f"{mode}, each further response chunk"))
    print(flush=True)


def rounds_of(rounds: int) -> Iterator[Case]:
    """All cases, again and again: what slows the machine down for a while slows down all."""
    for _ in range(rounds):
        yield from (*CASES, *LONGER.values())


def measure(rounds: int) -> dict[Case, Samples]:
    """The synchronous part against decoding and encoding its messages."""
    serve = state_machine.processor()
    samples = {case: Samples() for case in (*CASES, *LONGER.values())}
    sent = {case: case.traffic() for case in samples}
    gc.collect()
    gc.freeze()  # as `epp serve` does when it has started
    for case in rounds_of(rounds):
        ours = state_machine.whole_request(serve, sent[case])
        yardstick = state_machine.codec_only(sent[case])
        samples[case].ours.append(state_machine.microseconds(ours, 200))
        samples[case].yardstick.append(state_machine.microseconds(yardstick, 200))
    return samples


if __name__ == "__main__":
    main()
