"""A parser of command lines that leads from a slip to the spelling that was meant.

For commands with few flags; those of `epp serve` are read as pflag reads them (`epp.cli.flags`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from epp.app.flag_kinds import whole_number
from epp.cli.flags import unknown_words
from epp.cli.output import complain
from epp.support.argument_types import argument_type
from epp.support.nearest import did_you_mean
from epp.support.safe_text import printable

USAGE_ERROR = 2


class ArgumentParser(argparse.ArgumentParser):
    """Says what is wrong in a line each, without the usage of forty flags before it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # In place of "invalid int value", which does not say what is allowed.
        self.register("type", int, argument_type(whole_number("N").read))
        self.register("type", float, argument_type(_read_number))

    def parse_known_args(  # type: ignore[override]  # argparse's own overloads are for callers
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """What is known, which has to be all: a command's parser knows its own flags best."""
        words = sys.argv[1:] if args is None else list(args)
        found, rest = super().parse_known_args(words, namespace)
        known = [flag for each in self._actions for flag in each.option_strings]
        if problems := list(unknown_words(rest, words, known)):
            self._refuse(problems)
        return found, []

    def error(self, message: str) -> NoReturn:
        """End with what is wrong."""
        self._refuse([message.removeprefix("argument ")])

    def _refuse(self, problems: Sequence[str]) -> NoReturn:
        complain(self.prog, *map(printable, problems))
        print(f"{self.prog} --help explains the flags", file=sys.stderr)
        raise SystemExit(USAGE_ERROR)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse asks here whether a value is one of `choices`; it knows of nothing near.
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        text = f"{value!r} is not one of {', '.join(choices)}{did_you_mean(str(value), choices)}"
        raise argparse.ArgumentError(action, text)


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number; allowed: numbers such as 0.5 or 20") from None
