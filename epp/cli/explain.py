"""`epp explain`: why a request went where it did, or where one would go."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import msgspec

from epp.admin.decision_view import DecisionList, DecisionPart
from epp.admin.dry_run import DryRun, checked_header, checked_path
from epp.app.flag_kinds import whole_number
from epp.cli.admin_port import NoAnswer, add_admin_argument, ask
from epp.cli.flags import UsageError
from epp.cli.output import complain, print_json, print_table
from epp.diagnosis.decision_text import decision_table, decision_text
from epp.framework.errors import ConfigError
from epp.observability.logging import configure_logging
from epp.request_control.decision_log import MOST_NAME
from epp.support.argument_types import argument_type
from epp.support.regular_files import read_regular_file

NOT_TOLD = 1
STDIN = "-"
CHAT_PATH = "/v1/chat/completions"
MOST_BODY_BYTES = 8 << 20

_DESCRIPTION = """\
Tell why a running Endpoint Picker sent a request where it did: who was a candidate and who was
left out, what each filter removed and each scorer gave, the load as it was reported by then, the
pick and the time it took. REQUEST is the request's x-request-id; without one the last decisions
are listed. With --body it is a dry run: where that request would go now. Exit code 1 when the
picker can't be asked, or knows no such request.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.description = _DESCRIPTION
    parser.add_argument(
        "request",
        metavar="REQUEST",
        nargs="?",
        type=argument_type(_read_request),
        help="id of a decided request",
    )
    add_admin_argument(parser)
    parser.add_argument(
        "--last",
        metavar="COUNT",
        type=argument_type(whole_number("COUNT", least=1).read),
        default=20,
        help="decisions to list (default %(default)s)",
    )
    dry_run = parser.add_argument_group("dry run")
    dry_run.add_argument(
        "--body", metavar="FILE", help=f"body of a request; {STDIN} reads standard input"
    )
    dry_run.add_argument(
        "--path",
        default=CHAT_PATH,
        type=argument_type(_read_path),
        help="its path (default %(default)s)",
    )
    dry_run.add_argument(
        "--header",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=argument_type(_read_header),
        help="a header of it; may be given again",
    )
    dry_run.add_argument(
        "--subset",
        metavar="ADDRESS,...",
        type=_as_text,
        help="endpoints the gateway would allow, as ip:port or ip (default: all)",
    )
    parser.add_argument(
        "--output", choices=("table", "json"), default="table", help="(default %(default)s)"
    )


def run_command(arguments: argparse.Namespace) -> int:
    """Print what the picker tells. Raises `UsageError` and `ConfigError`."""
    configure_logging("critical", "console")
    problems = list(_contradictions(arguments))
    if problems:
        raise UsageError(*problems)
    try:
        told = asyncio.run(_told(arguments))
    except NoAnswer as error:
        complain("epp explain", str(error))
        return NOT_TOLD
    if arguments.output == "json":
        print_json(told)
    else:
        print_table(_text(told))
    return 0


def _contradictions(arguments: argparse.Namespace) -> list[str]:
    problems = []
    if arguments.request is not None and arguments.body is not None:
        problems.append("REQUEST and --body exclude each other; give one of them")
    if arguments.body is None:
        given = {
            "--header": arguments.header,
            "--subset": arguments.subset is not None,
            "--path": arguments.path != CHAT_PATH,
        }
        problems += [
            f"{flag} has no effect without --body" for flag, is_given in given.items() if is_given
        ]
    return problems


async def _told(arguments: argparse.Namespace) -> DecisionList | DecisionPart | list[DecisionPart]:
    if arguments.body is not None:
        asked = msgspec.json.encode(_dry_run(arguments))
        return await ask(arguments.admin, "/decisions/dry-run", DecisionPart, sent=asked)
    if arguments.request is None:
        return await ask(arguments.admin, f"/decisions?limit={arguments.last}", DecisionList)
    path = f"/decisions/{quote(arguments.request[:MOST_NAME], safe='')}"
    return await ask(arguments.admin, path, list[DecisionPart])


def _text(told: DecisionList | DecisionPart | list[DecisionPart]) -> str:
    if isinstance(told, DecisionList):
        return decision_table(told)
    decisions = told if isinstance(told, list) else [told]
    return "\n".join(map(decision_text, decisions))


def _dry_run(arguments: argparse.Namespace) -> DryRun:
    return DryRun(
        path=arguments.path,
        headers=_raw(dict(arguments.header)),
        body_base64=b64encode(_body(arguments.body)).decode(),
        subset=_raw(None if arguments.subset is None else arguments.subset.split(",")),
    )


def _body(file: str) -> bytes:
    try:
        if file != STDIN:
            body = read_regular_file(Path(file), MOST_BODY_BYTES + 1)
        else:
            # None: closed by who started us.
            body = sys.stdin.buffer.read(MOST_BODY_BYTES + 1) if sys.stdin is not None else b""
    except OSError as error:
        raise ConfigError(f"--body {file}: can't be read: {error.strerror}") from error
    if len(body) > MOST_BODY_BYTES:
        raise ConfigError(f"--body {file}: is larger than the {MOST_BODY_BYTES} bytes allowed")
    return body


def _raw(document: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(document))


def _as_text(argument: str) -> str:
    """An argument with bytes that are not UTF-8 replaced, as the picker does (decision 31)."""
    return os.fsencode(argument).decode("utf-8", "replace")


def _read_request(argument: str) -> str:
    if not argument:
        raise ValueError("REQUEST is empty; allowed: the x-request-id of a request")
    return _as_text(argument)


def _read_path(argument: str) -> str:
    return checked_path(_as_text(argument))


def _read_header(argument: str) -> tuple[str, str]:
    text = _as_text(argument)
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ValueError(f"{text!r} is no header; allowed: NAME=VALUE")
    return checked_header(name, value)
