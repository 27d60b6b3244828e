from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.app.flag_kinds import Kind, Port, Seconds
from epp.app.flags import Flag, Section, declarations_of
from epp.cli.flags import read_command_line

Names = Annotated[tuple[str, ...], Kind("NAMES", lambda text: tuple(text.split(",")), is_list=True)]


@dataclass(frozen=True, kw_only=True)
class Options:
    secure_serving: Annotated[bool, Flag(Section.TLS, "TLS")] = True
    grpc_port: Annotated[Port, Flag(Section.LISTENERS, "port")] = 9002
    drain_timeout: Annotated[Seconds, Flag(Section.SHUTDOWN, "drain")] = 30.0
    names: Annotated[Names, Flag(Section.POOL, "names")] = ()
    verbosity: Annotated[int, Flag(Section.OBSERVABILITY, "verbosity", name="v")] = 2


FLAGS = declarations_of(Options)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("--secure-serving", {"secure_serving": True}),
        ("--secure-serving=false", {"secure_serving": False}),
        ("--secure-serving=F", {"secure_serving": False}),
        ("--secure-serving=1 --grpc-port 1", {"secure_serving": True, "grpc_port": 1}),
        ("--grpc-port=1", {"grpc_port": 1}),
        ("--grpc-port 1", {"grpc_port": 1}),
        ("--grpc-port 1 --grpc-port=2", {"grpc_port": 2}),
        ("--drain-timeout 1m30s", {"drain_timeout": 90.0}),
        ("-v=5", {"verbosity": 5}),
        ("-v 3", {"verbosity": 3}),
        ("-v3", {"verbosity": 3}),
        ("--v=4", {"verbosity": 4}),
        ("--v 4", {"verbosity": 4}),
        ("-v -1", {"verbosity": -1}),
        ("--names a,b --names=c", {"names": ("a", "b", "c")}),
        ("", {}),
    ],
)
def test_every_spelling_of_pflag_is_read(words: str, values: dict[str, object]) -> None:
    line = read_command_line(words.split(), FLAGS)

    assert line.problems == []
    assert line.values == values


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        ("--grcp-port=1", ["unknown flag --grcp-port; the nearest is --grpc-port"]),
        ("--grcp-port 1", ["unknown flag --grcp-port; the nearest is --grpc-port"]),
        ("-grpc-port=1", ["unknown flag -grpc-port; long flags have two dashes: --grpc-port"]),
        ("--secure", ["unknown flag --secure; the nearest is --secure-serving"]),
        ("--secure-serving false", ["unexpected argument 'false'; write --secure-serving=false"]),
        ("serve", ["unexpected argument 'serve'"]),
        ("--grpc-port", ["--grpc-port: needs a value: --grpc-port=PORT"]),
        ("--grpc-port --v=1", ["--grpc-port: needs a value: --grpc-port=PORT"]),
        (
            "--grpc-port=",
            ["--grpc-port: '' is not a number; allowed: whole numbers from 0 to 65535"],
        ),
        ("-v=x", ["-v: 'x' is not a number; allowed: whole numbers"]),
        ("-verbose", ["-v: 'erbose' is not a number; allowed: whole numbers"]),
    ],
)
def test_a_mistake_is_named_with_the_way_out(words: str, problems: list[str]) -> None:
    assert read_command_line(words.split(), FLAGS).problems == problems


def test_all_mistakes_are_reported_at_once() -> None:
    words = ["--nope", "--grpc-port=70000", "stray", "--drain-timeout=5", "-x", "--v=2"]

    line = read_command_line(words, FLAGS)

    assert [problem.partition(";")[0] for problem in line.problems] == [
        "unknown flag --nope",
        "unexpected argument 'stray'",
        "unknown flag -x",
        "--grpc-port: '70000' is out of range",
        "--drain-timeout: '5' is not a duration",
    ]
    assert line.values == {"verbosity": 2}
    assert line.unreadable == ["--grpc-port", "--drain-timeout"]


def test_help_is_noticed_beside_anything_else() -> None:
    assert read_command_line(["--nope", "-h"], FLAGS).wants_help


@given(
    st.lists(st.text(max_size=12) | st.sampled_from(["--grpc-port", "-v", "--", "-", "--=", "-h="]))
)
def test_any_words_are_read_or_reported(words: list[str]) -> None:
    line = read_command_line(words, FLAGS)

    assert line.values.keys() <= {flag.option for flag in FLAGS}
    assert all(isinstance(problem, str) for problem in line.problems)
