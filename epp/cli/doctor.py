"""`epp doctor`: what is wrong around a picker, and what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from textwrap import fill

from epp.app.flags import declarations_of
from epp.app.pool_choice import NO_POOL
from epp.cli.flag_pages import flag_lines
from epp.cli.flags import UsageError, read_command_line
from epp.cli.options import options_of, serve_flags
from epp.cli.output import print_json, print_page, print_table
from epp.diagnosis.doctor import CHECK_IDS, examine
from epp.diagnosis.doctor_findings import Finding, Verdict, has
from epp.diagnosis.doctor_options import DoctorOptions
from epp.diagnosis.doctor_table import doctor_table
from epp.observability.logging import configure_logging
from epp.support.nearest import did_you_mean

FAULTS_FOUND = 1

_USAGE = f"""\
usage: epp doctor [flags of epp serve] [flags]

Check the surroundings of an Endpoint Picker and say what to do: cluster, pool, rights, pods, model
servers and their metrics, configuration, limits, the running picker as a gateway reaches it, and
the settings of an Envoy gateway. Nothing is changed, and nothing is sent to a model server but a
look at its metrics. Give it the flags that epp serve is started with; those that say what to pick
for, where to listen and what is allowed are read as epp serve reads them.

Exit code 0: nothing is wrong; 1: a fault was found (with --strict: or a warning); 2: wrong usage.

{fill(f"Checks: {', '.join(CHECK_IDS)}", 98, break_on_hyphens=False)}"""


def run_command(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Examine, and print what was found; raises `UsageError`."""
    own = declarations_of(DoctorOptions)
    line = read_command_line(arguments, (*serve_flags(), *own), environment)
    if line.wants_help:
        print_page("\n".join([_USAGE, *flag_lines(own)]) + "\n")
        return 0
    asked = DoctorOptions(
        **{f.option: line.values[f.option] for f in own if f.option in line.values}
    )
    options, problems = options_of(line)
    problems = [text for text in problems if text is not NO_POOL]  # there is much else to look at
    problems += [
        f"--skip: {name!r} is no check{did_you_mean(name, CHECK_IDS)}; allowed:"
        f" {', '.join(CHECK_IDS)}"
        for name in asked.skip
        if name not in CHECK_IDS
    ]
    if problems:
        raise UsageError(*problems)
    configure_logging("critical", "console")
    findings = asyncio.run(examine(options, asked, environ=environment))
    _print(findings, asked.output)
    is_bad = has(findings, Verdict.FAULT) or (asked.strict and has(findings, Verdict.WARNING))
    return FAULTS_FOUND if is_bad else 0


def _print(findings: Sequence[Finding], output: str) -> None:
    if output == "json":
        print_json({"findings": findings})
    else:
        print_table(doctor_table(findings))
