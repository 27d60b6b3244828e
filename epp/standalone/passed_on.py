"""Flags of `epp serve` that a standalone run hands to its picker as they are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from epp.app.flags import Declaration, declarations_of
from epp.app.options import ServeOptions
from epp.support.argument_types import argument_type

# What somebody tries out on a laptop; the rest of a standalone run is made to fit together.
_NAMES = frozenset({"transport", "outlier_consecutive_errors", "seed"})


def add_passed_on(group: argparse._ArgumentGroup) -> None:
    """Declare the flags, with the help and the defaults they have in `epp serve`."""
    for declaration in _declarations():
        default = declaration.default
        written = "" if default is None else f" (default {declaration.kind.write(default)})"
        group.add_argument(
            declaration.spelling,
            dest=declaration.option,
            type=argument_type(declaration.kind.read),
            metavar=declaration.kind.placeholder,
            help=declaration.flag.help + written,
        )


def passed_on_from(namespace: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, for `ServeOptions`."""
    given = {each.option: getattr(namespace, each.option) for each in _declarations()}
    return {option: value for option, value in given.items() if value is not None}


def _declarations() -> Iterator[Declaration]:
    return (each for each in declarations_of(ServeOptions) if each.option in _NAMES)
