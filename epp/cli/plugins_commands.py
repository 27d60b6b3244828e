"""`epp plugins list` and `epp plugins show`: what can stand in a configuration."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator

from epp.cli.output import print_page
from epp.config.descriptions import describe, describe_all
from epp.config.plugin_pages import facts_of
from epp.config.plugin_registry import PluginRegistry
from epp.diagnosis.columns import columns

_WIDTH = 98


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="every plugin type, bundled and installed")
    listing.set_defaults(lines=_table)
    show = commands.add_parser("show", help="one plugin type and its parameters")
    show.add_argument("type", metavar="TYPE", help="as `epp plugins list` prints it")
    show.set_defaults(lines=_page)


def run_command(arguments: argparse.Namespace) -> int:
    """Print what is asked for. Raises `ConfigError` for a type that can't be used."""
    print_page("\n".join(lines(arguments, PluginRegistry.installed())) + "\n")
    return 0


def lines(arguments: argparse.Namespace, registry: PluginRegistry) -> Iterator[str]:
    """What is asked for, as text."""
    asked: Iterator[str] = arguments.lines(arguments, registry)
    return asked


def _table(arguments: argparse.Namespace, registry: PluginRegistry) -> Iterator[str]:
    rows = [("TYPE", "KIND", "STABILITY", "")]
    for described in describe_all(registry):
        text = described.problem or described.summary
        rows.append((described.type, ", ".join(described.kinds), described.stability, text))
    yield from columns(rows)


def _page(arguments: argparse.Namespace, registry: PluginRegistry) -> Iterator[str]:
    described = describe(arguments.type, registry)
    yield f"{described.type}: {', '.join(described.kinds)}, {described.stability}"
    yield ""
    yield from textwrap.wrap(described.summary, _WIDTH)
    if described.text:
        yield from ["", described.text]
    facts = list(facts_of(described))
    yield from [""] * bool(facts)
    for name, value in facts:
        yield from textwrap.wrap(f"{name}: {value}", _WIDTH, subsequent_indent="  ")
    if not described.parameters or described.ignores_parameters:
        return
    yield from ["", "parameters:"]
    for row in described.parameters:
        default = f"default {row.default}" if row.default not in ("", "required") else row.default
        details = ", ".join(filter(None, (row.type, row.bounds, default)))
        yield f"  {row.path} ({details})"
        yield from textwrap.wrap(
            row.description, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
