"""What a request costs an Endpoint Picker, and how long a pick takes, beside others in turns.

`python -m tests.benchmarks.ext_proc` prints the first tables of docs/performance.md, which says
how to read them. Needs Go, once, to build the load generator.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from tests.benchmarks.bar_chart import bar_chart
from tests.benchmarks.comparison import Case, Pace, Samples, compare
from tests.benchmarks.comparison_tables import Family, cpu, further_chunks, is_telling, tables
from tests.benchmarks.contenders import Contender, before, named, ours
from tests.benchmarks.document import Document
from tests.benchmarks.load_generator import LoadError, Shape

Value = TypeVar("Value")

FAMILIES = [
    Family(
        name="body",
        title="request body",
        cases={f"{kib} KB": Case(shape=Shape(body_kib=kib)) for kib in (1, 16, 128)},
    ),
    Family(
        name="chunks",
        title="response chunks",
        cases={f"{count}": Case(shape=Shape(chunks=count)) for count in (0, 5, 50, 500)},
    ),
    Family(
        name="streams",
        title="streams at once",
        cases={f"{count}": Case(shape=Shape(streams=count)) for count in (1, 8, 64, 512)},
    ),
    Family(
        name="endpoints",
        title="endpoints",
        cases={f"{count:,}": Case(endpoints=count) for count in (3, 30, 300, 1000)},
    ),
    Family(
        name="tls",
        title="TLS",
        cases={"off": Case(), "on": Case(tls=True)},
    ),
]
FULL = Pace(rounds=5, seconds=2, idle_seconds=3)
QUICK = Pace(rounds=3, seconds=1, idle_seconds=1)
QUICK_CASES = ("body", "tls")


def main() -> int:
    """Measure and print."""
    parser = _parser()
    arguments = parser.parse_args()
    contenders = _contenders(arguments)
    names = [contender.name for contender in contenders]
    if len(set(names)) < len(names):
        parser.error(f"names of servers must differ: {', '.join(names)}")
    pace = QUICK if arguments.quick else FULL
    if arguments.rounds:
        pace = Pace(rounds=arguments.rounds, seconds=pace.seconds, idle_seconds=pace.idle_seconds)
    chosen = arguments.case or (QUICK_CASES if arguments.quick else [f.name for f in FAMILIES])
    families = [family for family in FAMILIES if family.name in chosen]
    cases = dict.fromkeys(case for family in families for case in family.cases.values())
    try:
        with tempfile.TemporaryDirectory() as folder:
            samples = compare(contenders, list(cases), pace, Path(folder))
    except LoadError as error:
        print(error, file=sys.stderr)
        return 1
    text = _report(families, names, samples, pace)
    print(text, flush=True)
    if arguments.document:
        arguments.document.put(text, _plot(families, names, samples))
    return 0


def _report(families: Sequence[Family], names: Sequence[str], samples: Samples, pace: Pace) -> str:
    parts = [_conditions(pace, samples), tables(families, names, samples)]
    short, long = Case(), Case(shape=Shape(chunks=500))
    if samples.keys() >= {(short, names[0]), (long, names[0])}:
        parts.append(further_chunks(short, long, names, samples))
    return "\n\n".join(parts)


def _plot(families: Sequence[Family], names: Sequence[str], samples: Samples) -> str:
    bars: dict[str, list[list[float]]] = {}
    shown: set[Case] = set()
    for family in families:
        for name, case in family.cases.items():
            taken = [samples[case, server] for server in names]
            # 500 chunks cost so much that nothing else could be seen.
            if case not in shown and case.shape.chunks < 500 and all(map(is_telling, taken)):
                bars[f"{family.title}: {name}"] = [cpu(each) for each in taken]
            shown.add(case)
    return bar_chart("CPU us per request", names, bars)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.ext_proc", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument(
        "--case",
        action="append",
        choices=[family.name for family in FAMILIES],
        help="only these, may be repeated",
    )
    parser.add_argument("--rounds", type=int, help="samples of each case")
    parser.add_argument(
        "--transport",
        action="append",
        choices=["native", "grpc"],
        help="of this checkout, may be repeated (default: both)",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="another checkout of this project, with the same transports",
    )
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        type=_told(named),
        metavar="NAME=COMMAND",
        help="any other Endpoint Picker, may be repeated; in the command {port} is where it has to"
        " serve ext_proc on 127.0.0.1, {secure} whether with TLS (true or false), {endpoints} a"
        " file with the endpoints as file-discovery reads it, {pool} one with an InferencePool too",
    )
    parser.add_argument(
        "--document",
        type=_told(Document),
        metavar="FILE",
        help="page to put the tables and a plot into",
    )
    return parser


def _told(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Let argparse tell what is wrong with a value: it hides what a ValueError says."""

    def reading(text: str) -> Value:
        try:
            return read(text)
        except (ValueError, OSError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return reading


def _contenders(arguments: argparse.Namespace) -> list[Contender]:
    transports = arguments.transport or ["native", "grpc"]
    contenders = [ours(transport) for transport in transports]
    if arguments.before:
        contenders += [before(transport, arguments.before.resolve()) for transport in transports]
    return [*contenders, *arguments.against]


def _conditions(pace: Pace, samples: Samples) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("grpcio", "protobuf", "uvloop"))
    loads = [sample.load for taken in samples.values() for sample in taken]
    own = sum(load.own_cpu_seconds for load in loads) / sum(load.cpu_seconds for load in loads)
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions};"
        f" {pace.rounds} rounds of {pace.seconds:g} s. The load generator took {own:.0%} of the CPU"
        " that servers took."
    )


if __name__ == "__main__":
    sys.exit(main())
