"""`epp config check` and `epp config schema`: an EndpointPickerConfig without a running picker."""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

from epp.cli.output import print_page
from epp.config.assembly import assemble
from epp.config.document import Document
from epp.config.json_schema import json_schema
from epp.config.loader import MAX_BYTES, load_config, read_config
from epp.config.plugin_registry import PluginRegistry
from epp.config.resolved import resolved_text
from epp.observability.logging import configure_logging
from epp.observability.metrics import Metrics
from epp.support.safe_text import printable

STDIN = "-"

_CHECK = """\
Check an EndpointPickerConfig and print what it means: defaults filled in, plugins that are added,
who reads what from whom. What is printed is a configuration of the same meaning. Warnings go to
standard error; a configuration that can't be used is explained there, with exit code 2.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    check = commands.add_parser("check", help="check a file, and print it completed")
    check.description = _CHECK
    check.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help=f"the configuration; {STDIN} reads standard input; without it the built-in default",
    )
    check.add_argument(
        "--allow-experimental-plugins",
        action="store_true",
        help="allow plugins whose stability is Alpha, as the flag of epp serve does",
    )
    check.set_defaults(run=_check)
    schema = commands.add_parser("schema", help="print JSON Schema of the file, for editors")
    schema.set_defaults(run=_schema)


def run_command(arguments: argparse.Namespace) -> int:
    """Do what is asked for. Raises `ConfigError` for a configuration that can't be used."""
    configure_logging("critical", "console")
    result: int = arguments.run(arguments)
    return result


def _check(arguments: argparse.Namespace) -> int:
    assembly = assemble(
        _document(arguments.file),
        PluginRegistry.installed(),
        metrics=Metrics(),
        rng=random.Random(0),
        allow_experimental=arguments.allow_experimental_plugins,
    )
    for warning in assembly.warnings:
        print(f"epp config check: warning: {printable(warning)}", file=sys.stderr)
    print_page(resolved_text(assembly))
    return 0


def _document(file: str | None) -> Document:
    if file is None:
        return load_config("", what="the built-in default")
    if file == STDIN:
        return load_config(sys.stdin.buffer.read(MAX_BYTES + 1), what="standard input")
    return read_config(Path(file))


def _schema(arguments: argparse.Namespace) -> int:
    schema = json_schema(PluginRegistry.installed())
    print_page(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    return 0
