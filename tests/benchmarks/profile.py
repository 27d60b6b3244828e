"""Where the CPU time of `epp serve` goes under load: `python -m tests.benchmarks.profile`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import cores
from tests.benchmarks.contenders import running, sampled
from tests.benchmarks.load_generator import LoadError, LoadGenerator, Shape
from tests.benchmarks.sampled_serve import WRITTEN
from tests.benchmarks.sampler import LOOP, Samples
from tests.benchmarks.simulated_pool import simulated_pool
from tests.fakes.programs.program import ROOT

_LIBRARIES = sysconfig.get_path("purelib")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.profile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of load (default: 10)")
    parser.add_argument("--body", type=int, default=1, help="KB of a request (default: 1)")
    parser.add_argument("--chunks", type=int, default=5, help="of a response (default: 5)")
    parser.add_argument("--streams", type=int, default=8, help="at once (default: 8)")
    parser.add_argument("--endpoints", type=int, default=3, help="scraped (default: 3)")
    parser.add_argument("--tls", action="store_true", help="TLS")
    parser.add_argument("--transport", choices=["native", "grpc"], default="native")
    parser.add_argument("--top", type=int, default=40, help="functions listed (default: 40)")
    arguments = parser.parse_args()
    shape = Shape(
        body_kib=arguments.body,
        chunks=arguments.chunks,
        streams=arguments.streams,
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            samples = measure(arguments, shape, Path(folder))
    except LoadError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(report(samples, arguments.top)))
    return 0


def measure(arguments: argparse.Namespace, shape: Shape, folder: Path) -> Samples:
    """Load a server that is looked at once it has warmed up."""
    found = folder / "samples.json"
    with cores.starting_on(cores.OF_CLIENTS):
        generator = LoadGenerator(folder)
        with (
            simulated_pool(arguments.endpoints, folder) as pool,
            running(sampled(arguments.transport, found), pool, folder, tls=arguments.tls) as server,
        ):
            server.wait_until_it_picks(generator)
            server.load(generator, shape, seconds=1)
            server.signal(signal.SIGUSR1)
            server.load(generator, shape, arguments.seconds)
            server.signal(signal.SIGUSR1)
            server.wait_for_line(WRITTEN)
    read = json.loads(found.read_text())
    return Samples(Counter(read["own"]), Counter(read["total"]), read["count"])


def report(samples: Samples, top: int) -> Iterator[str]:
    """Shares of the time by room and by function, as tables in markdown."""
    rooms: Counter[str] = Counter()
    for name, count in samples.own.items():
        rooms[room_of(name)] += count
    yield f"{samples.count} samples."
    yield "\n| room | own time |\n|---|---|"
    for room, count in rooms.most_common():
        yield f"| {room} | {count / samples.count:.1%} |"
    yield "\n| function | own time | with what it calls |\n|---|---|---|"
    for name, count in samples.own.most_common(top):
        total = samples.total[name] or count
        yield (
            f"| {short_name(name)} | {count / samples.count:.1%} | {total / samples.count:.1%} |"
        )


def room_of(name: str) -> str:
    """A package folder of ours, a library, Python's own, or the event loop."""
    if name == LOOP:
        return LOOP
    file = Path(name.partition(":")[0])
    if file.is_relative_to(ROOT / "epp"):
        return "/".join(file.relative_to(ROOT).parts[:-1])
    if file.is_relative_to(_LIBRARIES):
        return file.relative_to(_LIBRARIES).parts[0]
    return "Python's library"


def short_name(name: str) -> str:
    """Without what all names have in common."""
    file, is_function, function = name.partition(":")
    for folder in (ROOT, Path(_LIBRARIES)):
        if Path(file).is_relative_to(folder):
            file = str(Path(file).relative_to(folder))
    return f"{file}{is_function}{function}"


if __name__ == "__main__":
    sys.exit(main())
