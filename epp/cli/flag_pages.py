"""Help text and reference page, written from the declarations of the flags."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from epp.app.flags import Declaration, Section, Standing
from epp.cli.flags import spellings
from epp.cli.options import serve_flags

_INTRODUCTION = """\
# Flags of `epp serve`

Written by `python -m epp.cli.flag_pages > docs/flags.md`; a test fails when it is not up to date.

Flags are written as `--flag value` or `--flag=value`. A boolean is `--flag`, `--flag=true` or
`--flag=false`, never `--flag false`. When a flag is given twice, the last one counts; lists are
joined. A flag that is not given, or is given empty, is read from its environment variable if it has
one. An unknown flag, a value that can't be read and flags that contradict each other stop the
start with exit code 2, and every problem is reported at once.

- DURATION: `250ms`, `30s`, `1m30s`, `0`
- SIZE: bytes, or `64Mi`, `10MiB`, `25MB`, `1G`
- BOOL: `true`, `false`, `t`, `f`, `1`, `0`
- ADDRESS: an IP address
"""

_NOT_HERE = f"""
## {Section.ELSEWHERE}

They are known, so that an existing deployment is told exactly what differs. A flag that was removed
is an error, one without effect is warned about once. Nothing is said about
a value that asks for nothing (empty, `false`) or for what is done anyway.

| flag | default there | meaning there | here |
|---|---|---|---|
"""


def help_text(flags: Sequence[Declaration]) -> str:
    """Return what `epp serve --help` prints."""
    lines = [
        "usage: epp serve --pool-name NAME [flags]",
        "       epp serve --endpoint-selector SELECTOR --endpoint-target-ports PORT,... [flags]",
        "       epp serve --pool-file FILE [flags]",
        "",
        "Run the Endpoint Picker: answer a gateway's ext_proc calls.",
    ]
    lines += flag_lines(flags)
    others = ", ".join(flag.spelling for flag in flags if flag not in _working(flags))
    lines += ["", *_wrap(f"Known, but without effect or removed: {others}.")]
    return "\n".join(lines) + "\n"


def flag_lines(flags: Sequence[Declaration]) -> Iterator[str]:
    """Yield the lines that explain the flags that work, by section."""
    for section, members in _by_section(_working(flags)):
        yield from ("", f"{section}:")
        for flag in members:
            yield from _help_lines(flag)


def reference_page(flags: Sequence[Declaration]) -> str:
    """Return `docs/flags.md`."""
    page = [_INTRODUCTION]
    for section, members in _by_section(_working(flags)):
        page.append(f"\n## {section}\n\n| flag | value | default | meaning |\n|---|---|---|---|\n")
        page += [_row(_names(f), f.kind.placeholder, _default(f), _meaning(f)) for f in members]
    page.append(_NOT_HERE)
    for flag in flags:
        if flag.flag.standing is not Standing.WORKS:
            here = f"{flag.flag.standing}: {flag.flag.reason}"
            page.append(_row(_names(flag), _default(flag), flag.flag.help, here))
    return "".join(page)


def _working(flags: Iterable[Declaration]) -> list[Declaration]:
    return [flag for flag in flags if flag.flag.standing is Standing.WORKS]


def _by_section(
    flags: Iterable[Declaration],
) -> Iterator[tuple[Section, Iterator[Declaration]]]:
    order = list(Section)
    ordered = sorted(flags, key=lambda flag: order.index(flag.flag.section))
    return groupby(ordered, key=lambda flag: flag.flag.section)


def _help_lines(flag: Declaration) -> list[str]:
    value = f"[={flag.kind.placeholder}]" if flag.is_switch else f" {flag.kind.placeholder}"
    default = f" (default {text})" if (text := _default_text(flag)) else ""
    default += f" (environment {flag.flag.environment})" if flag.flag.environment else ""
    head = f"  {', '.join(spellings(flag))}{value}"
    return [head, *_wrap(f"{flag.flag.help}{default}", indent=8)]


def _wrap(text: str, indent: int = 0) -> list[str]:
    blank = " " * indent
    return textwrap.wrap(
        text, 98, initial_indent=blank, subsequent_indent=blank, break_on_hyphens=False
    )


def _default_text(flag: Declaration) -> str:
    return "" if flag.default is None else flag.kind.write(flag.default)


def _names(flag: Declaration) -> str:
    return ", ".join(f"`{name}`" for name in spellings(flag))


def _default(flag: Declaration) -> str:
    return f"`{text}`" if (text := _default_text(flag)) else ""


def _meaning(flag: Declaration) -> str:
    variable = flag.flag.environment
    return flag.flag.help + (f"; environment variable `{variable}`" if variable else "")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    print(reference_page(serve_flags()), end="")
