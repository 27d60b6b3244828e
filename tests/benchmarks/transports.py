"""CPU of both transports for the same handlers, in turns: `python -m tests.benchmarks.transports`.

Ratios are medians over rounds of native / grpc.aio; absolute figures drift with the machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import grpc

from epp.support.event_loop import run_in_loop
from tests.benchmarks import state_machine
from tests.benchmarks.processes import Load
from tests.benchmarks.traffic import FULL_DUPLEX, Traffic, traffic
from tests.fakes.programs import Program

CHUNKS = 5
FURTHER_CHUNKS = 50
TRANSPORTS = ("native", "grpc")
HANDLERS = ("picker", "echo")


class Case(NamedTuple):
    """One kind of request."""

    kib: int
    chunks: int


CASES = (Case(1, CHUNKS), Case(16, CHUNKS), Case(128, CHUNKS), Case(1, CHUNKS + FURTHER_CHUNKS))


class Server(NamedTuple):
    """A transport with a handler."""

    transport: str
    handler: str


Samples = dict[tuple[Server, Case], list[float]]


@contextmanager
def running(server: Server, folder: Path) -> Iterator[tuple[int, int]]:
    """Serve until the block is left; yields process id and port."""
    command = [sys.executable, "-m", "tests.benchmarks.transport_server", *server]
    program = Program("-".join(server), command, folder / f"{'-'.join(server)}.log")
    program.start()
    try:
        yield program.pid, int(program.wait_for_line("port ").split()[1])
    finally:
        program.kill()


async def measure(rounds: int, folder: Path) -> Samples:
    """All servers and cases, one after the other, again and again."""
    sent = {case: traffic(case.kib * 1024, case.chunks, FULL_DUPLEX) for case in CASES}
    samples: Samples = defaultdict(list)
    async with AsyncExitStack() as stack:
        loads: dict[Server, Load] = {}
        for server in (Server(t, h) for h in HANDLERS for t in TRANSPORTS):
            pid, port = stack.enter_context(running(server, folder))
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
            loads[server] = Load(await stack.enter_async_context(channel), pid)
        for number in range(rounds + 1):
            for case in CASES:
                for server, load in loads.items():
                    count = 40 if case.chunks == CHUNKS else 16
                    answers = _answers(server, sent[case])
                    cost = await load.microseconds(sent[case], answers, count)
                    if number:  # the first round warms up
                        samples[server, case].append(cost)
    return samples


def _answers(server: Server, sent: Traffic) -> int:
    if server.handler == "echo":
        return len(sent.request)
    return state_machine.answers_to_request(sent)


def table(samples: Samples, handler: str) -> None:
    """Print one handler's figures."""
    ours, theirs = Server("native", handler), Server("grpc", handler)
    print(f"| {handler}, whole process, CPU us | native | grpc.aio | ratio |\n|---|---|---|---|")
    for case in CASES[:-1]:
        name = f"{case.kib} KiB body, {case.chunks} response chunks"
        _row(name, samples[ours, case], samples[theirs, case])
    _row("each further response chunk", _further(samples, ours), _further(samples, theirs))
    print(flush=True)


def _further(samples: Samples, server: Server) -> list[float]:
    pairs = zip(samples[server, CASES[0]], samples[server, CASES[-1]], strict=True)
    return [(long - short) / FURTHER_CHUNKS for short, long in pairs]


def _row(name: str, ours: list[float], theirs: list[float]) -> None:
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    print(f"| {name} | {median(ours):.0f} | {median(theirs):.0f} | {ratio:.2f} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="samples of each (default: 11)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        samples = run_in_loop(measure(rounds, Path(folder)))
    for handler in HANDLERS:
        table(samples, handler)


if __name__ == "__main__":
    main()
