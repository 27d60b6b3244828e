"""The command `epp`: finds the subcommand, which loads only what it needs."""

from __future__ import annotations

import os
import platform
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from types import FrameType
from typing import NamedTuple

from epp import __version__
from epp.cli.argument_parser import USAGE_ERROR, ArgumentParser
from epp.cli.flags import UsageError
from epp.cli.output import complain, print_page
from epp.framework.errors import ConfigError
from epp.support.nearest import nearest
from epp.support.revision import revision_in
from epp.support.standard_streams import open_standard_streams

INTERRUPTED = 130
"""As shells have it for a process that SIGINT has ended."""


class Command(NamedTuple):
    """A subcommand."""

    summary: str
    run: Callable[[Sequence[str]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if argv is None:
        # The first process of a container gets no signal that it has no handler for, and a second
        # passes until commands have their own.
        signal.signal(signal.SIGTERM, _end_at_once)
        open_standard_streams()
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments:
        print(_overview(), end="", file=sys.stderr)
        return USAGE_ERROR
    if arguments[0] in ("-h", "--help", "help"):
        return _run(_print_overview, "help", ())
    name = "version" if arguments[0] == "--version" else arguments[0]
    if name not in COMMANDS:
        complain("epp", f"unknown command {name!r}; the nearest is {nearest(name, COMMANDS)!r}")
        return USAGE_ERROR
    return _run(COMMANDS[name].run, name, arguments[1:])


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)  # as shells have it for a process that a signal has ended


def _run(run: Callable[[Sequence[str]], int], name: str, arguments: Sequence[str]) -> int:
    program = f"epp {name}"
    try:
        return run(arguments)
    except UsageError as error:
        complain(program, *error.problems)
        print(f"{program} --help explains the flags", file=sys.stderr)
        return USAGE_ERROR
    except ConfigError as error:
        complain(program, str(error))
        return USAGE_ERROR
    except SystemExit as stop:  # argparse after help, or after an error it has explained
        return stop.code if isinstance(stop.code, int) else USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED


def _print_overview(_arguments: Sequence[str]) -> int:
    print_page(_overview())
    return 0


def _serve(arguments: Sequence[str]) -> int:
    from epp.cli.options import parse_serve, serve_flags

    command = parse_serve(arguments, os.environ)
    if command.wants_help:
        from epp.cli.flag_pages import help_text

        print_page(help_text(serve_flags()))
        return 0
    for warning in command.warnings:
        print(f"epp serve: warning: {warning}", file=sys.stderr)
    from epp.app.serve import serve

    return serve(command.options)


def _standalone(arguments: Sequence[str]) -> int:
    from epp.standalone.arguments import add_arguments, run_command

    parser = _parser("standalone")
    add_arguments(parser)
    return run_command(parser.parse_args(arguments))


def _envoy_config(arguments: Sequence[str]) -> int:
    from epp.cli.envoy_config import run_command
    from epp.cli.envoy_flags import add_arguments

    parser = _parser("envoy-config")
    add_arguments(parser)
    return run_command(parser.parse_args(arguments))


def _simulator(arguments: Sequence[str]) -> int:
    from epp.simulator.arguments import add_arguments, run_command

    parser = _parser("simulator")
    add_arguments(parser)
    return run_command(parser.parse_args(arguments))


def _pool(arguments: Sequence[str]) -> int:
    from epp.cli.pool_show import add_arguments, run_command

    parser = _parser("pool")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    show = commands.add_parser("show", help="its endpoints, and why pods have none")
    add_arguments(show, os.environ)
    return run_command(parser.parse_args(arguments))


def _doctor(arguments: Sequence[str]) -> int:
    from epp.cli.doctor import run_command

    return run_command(arguments, os.environ)


def _explain(arguments: Sequence[str]) -> int:
    from epp.cli.explain import add_arguments, run_command

    parser = _parser("explain")
    add_arguments(parser)
    return run_command(parser.parse_args(arguments))


def _config(arguments: Sequence[str]) -> int:
    from epp.cli.config_commands import add_arguments, run_command

    parser = _parser("config")
    add_arguments(parser)
    return run_command(parser.parse_args(arguments))


def _plugins(arguments: Sequence[str]) -> int:
    from epp.cli.plugins_commands import add_arguments, run_command

    parser = _parser("plugins")
    add_arguments(parser)
    return run_command(parser.parse_args(arguments))


def _version(arguments: Sequence[str]) -> int:
    _parser("version").parse_args(arguments)
    revision = revision_in(os.environ)
    print_page(
        f"epp {__version__}{revision and f', commit {revision}'}\n"
        f"Python {platform.python_version()}\ngrpcio {version('grpcio')}\n"
    )
    return 0


COMMANDS: Mapping[str, Command] = {
    "serve": Command("run the Endpoint Picker for a gateway", _serve),
    "standalone": Command("run Envoy, Endpoint Picker, simulated model servers here", _standalone),
    "simulator": Command("run a simulated model server", _simulator),
    "envoy-config": Command("print a bootstrap for Envoy in front of a pool", _envoy_config),
    "pool": Command("show a pool: endpoints, and why pods have none", _pool),
    "doctor": Command("check what is around a picker, and say what to do", _doctor),
    "explain": Command("tell why a request went where it did, or where it would go", _explain),
    "config": Command("check an EndpointPickerConfig, print its JSON Schema", _config),
    "plugins": Command("list plugin types, show one with its parameters", _plugins),
    "version": Command("print versions", _version),
}


def _parser(name: str) -> ArgumentParser:
    summary = COMMANDS[name].summary
    description = f"{summary[0].upper()}{summary[1:]}."
    return ArgumentParser(prog=f"epp {name}", description=description, allow_abbrev=False)


def _overview() -> str:
    commands = [f"  {name:<14}{command.summary}\n" for name, command in COMMANDS.items()]
    return (
        "usage: epp COMMAND [flags]\n\n"
        "An Endpoint Picker for InferencePool: tells a gateway, for every LLM request, which\n"
        "model-server endpoint to use.\n\n"
        f"commands:\n{''.join(commands)}\n"
        "epp COMMAND --help explains the flags of a command.\n"
    )
