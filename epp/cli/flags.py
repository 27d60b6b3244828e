"""Reads a command line the way pflag does, and reports all that is wrong with it at once.

`--flag value`, `--flag=value`, `--switch`, `--switch=false`, `-v=5`, `--v=4`, `-v 3`. A switch
takes no separate value, long flags have two dashes, nothing may be abbreviated.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NoReturn

from epp.app.flags import Declaration
from epp.support.nearest import near

_NO_VALUE = "\0"


class UsageError(Exception):
    """The command line can't be obeyed; `problems` has a line for each reason."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(slots=True)
class CommandLine:
    """What a command line says: values of the options given, and what is wrong with it."""

    values: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    """What variables of the environment say, for options that aren't given or are given empty."""
    problems: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """Flags given with a value that can't be read."""
    wants_help: bool = False


class _Tokenizer(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def spellings(declaration: Declaration) -> tuple[str, ...]:
    """Return every way to write the flag's name."""
    name = declaration.name
    return (f"-{name}", f"--{name}") if len(name) == 1 else (f"--{name}",)


def read_command_line(
    arguments: Sequence[str],
    declarations: Sequence[Declaration],
    environment: Mapping[str, str] = MappingProxyType({}),
) -> CommandLine:
    """Read every flag there is to read; problems are collected, not raised."""
    switches = {name for flag in declarations if flag.is_switch for name in spellings(flag)}
    tokenizer = _tokenizer(declarations)
    try:
        texts, rest = tokenizer.parse_known_args(
            [f"{word}=true" if word in switches else word for word in arguments]
        )
    except UsageError as error:
        return CommandLine(problems=list(error.problems))
    line = CommandLine(wants_help=texts.help)
    known = [name for flag in declarations for name in spellings(flag)]
    line.problems.extend(unknown_words(rest, arguments, known, switches))
    for declaration in declarations:
        given = getattr(texts, declaration.option)
        if given is not None:
            _read(declaration, given, line)
        if not any(given or ()):
            _read_environment(declaration, environment, line)
    return line


def _tokenizer(declarations: Sequence[Declaration]) -> _Tokenizer:
    tokenizer = _Tokenizer(prog="epp", add_help=False, allow_abbrev=False)
    tokenizer.add_argument("-h", "--help", action="store_true")
    for declaration in declarations:
        tokenizer.add_argument(
            *spellings(declaration),
            dest=declaration.option,
            action="append",
            nargs="?",
            const=_NO_VALUE,
        )
    return tokenizer


def _read(declaration: Declaration, given: list[str], line: CommandLine) -> None:
    kind = declaration.kind
    try:
        if _NO_VALUE in given:
            raise ValueError(f"needs a value: {declaration.spelling}={kind.placeholder}")
        line.values[declaration.option] = kind.read(",".join(given) if kind.is_list else given[-1])
    except ValueError as error:
        line.problems.append(f"{declaration.spelling}: {error}")
        line.unreadable.append(declaration.spelling)


def _read_environment(
    declaration: Declaration, environment: Mapping[str, str], line: CommandLine
) -> None:
    variable = declaration.flag.environment
    if not environment.get(variable):
        return
    try:
        line.defaults[declaration.option] = declaration.kind.read(environment[variable])
    except ValueError as error:
        line.problems.append(f"environment variable {variable}: {error}")
        line.unreadable.append(declaration.spelling)


def unknown_words(
    rest: Sequence[str],
    arguments: Sequence[str],
    known: Sequence[str],
    switches: Collection[str] = (),
) -> Iterator[str]:
    """What is wrong with the `rest` of `arguments` that no flag of `known` has taken."""
    neighbours = set(pairwise(arguments))
    flag = ""
    for word in rest:
        if word.startswith("-") and len(word) > 1:
            flag = word
            name = word.partition("=")[0]
            yield f"unknown flag {name}{_suggestion(name, known)}"
        elif (flag, word) not in neighbours:  # else it is the value of the unknown flag
            before = [switch for switch in switches if (switch, word) in neighbours]
            hint = f"; write {before[0]}={word}" if before else ""
            yield f"unexpected argument {word!r}{hint}"


def _suggestion(name: str, known: Sequence[str]) -> str:
    if f"-{name}" in known:
        return f"; long flags have two dashes: -{name}"
    meant = near(name, known)
    return f"; the nearest is {meant}" if meant else ""
