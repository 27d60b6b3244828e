"""What a request costs, as ratios to yardsticks of the same run: `make bench`.

How to read the tables: docs/performance.md.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median

import grpc

from epp.support.event_loop import run_in_loop
from tests.benchmarks import processes, state_machine
from tests.benchmarks.traffic import FULL_DUPLEX, STREAMED, Traffic, traffic
from tests.fakes.serving import serving_picker

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
        f"grpcio {grpc.__version__}, protobuf {version('protobuf')}, uvloop {version('uvloop')},"
        f" Python {platform.python_version()}, {os.cpu_count()} cores, {rounds} rounds\n"
    )
    table("state machine alone, CPU us", "codec only", measure_state_machine(rounds))
    with tempfile.TemporaryDirectory() as folder:
        samples = run_in_loop(measure_processes(rounds, Path(folder)))
    table("whole process, CPU us", "grpc.aio echo", samples)


def table(title: str, yardstick: str, samples: dict[Case, Samples]) -> None:
    """Print all cases, and what a chunk more costs in each mode."""
    print(f"| {title} | ours | {yardstick} | ratio |\n|---|---|---|---|")
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


def measure_state_machine(rounds: int) -> dict[Case, Samples]:
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


async def measure_processes(rounds: int, folder: Path) -> dict[Case, Samples]:
    """A picker and the echo server, in turns."""
    samples = {case: Samples() for case in (*CASES, *LONGER.values())}
    sent = {case: case.traffic() for case in samples}
    answers = {case: state_machine.answers_to_request(sent[case]) for case in samples}
    with serving_picker(folder) as picker, processes.echo_server(folder) as echo:
        ours_at, yardstick_at = f"127.0.0.1:{picker.ext_proc_port}", f"127.0.0.1:{echo.port}"
        async with (
            grpc.aio.insecure_channel(ours_at) as ours_channel,
            grpc.aio.insecure_channel(yardstick_at) as yardstick_channel,
        ):
            ours = processes.Load(ours_channel, picker.pid)
            yardstick = processes.Load(yardstick_channel, echo.pid)
            for case in CASES:
                await ours.microseconds(sent[case], answers[case], 80)
                await yardstick.microseconds(sent[case], len(sent[case].request), 80)
            for case in rounds_of(rounds):
                count = 40 if case in CASES else 16
                of_ours = ours.microseconds(sent[case], answers[case], count)
                samples[case].ours.append(await of_ours)
                of_echo = yardstick.microseconds(sent[case], len(sent[case].request), count)
                samples[case].yardstick.append(await of_echo)
    return samples


if __name__ == "__main__":
    main()
