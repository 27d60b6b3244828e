"""Text for a person, or for the next program of a pipe."""

from __future__ import annotations

import json
import os
import sys
from typing import TextIO

import msgspec

from epp.framework.errors import ConfigError
from epp.support.safe_text import printable


def print_page(text: str) -> None:
    """Print `text`; raises `ConfigError` where it can't be written.

    A reader that has seen enough, such as `head`, is no mistake, nor is it to have none.
    """
    stream: TextIO | None = sys.stdout
    if stream is None:  # closed by who started us
        return
    try:
        stream.write(_writable(text, stream))
        stream.flush()
    except BrokenPipeError:
        _forget(stream)
    except OSError as error:
        _forget(stream)
        raise ConfigError(f"the output can't be written: {error.strerror}") from error


def print_table(text: str) -> None:
    """Print text for people, with the terminal escapes that it may quote made plain."""
    print_page(_plain(text))


def print_json(document: object) -> None:
    """Print a document for programs; it may be shown on a terminal, too."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    print_page("".join(map(_as_in_json, text)) if _has_hidden(text) else text)


def complain(program: str, *problems: str) -> None:
    """Tell of problems; they may quote anything, terminal escapes included."""
    for problem in problems:
        print(f"{program}: {_plain(problem)}", file=sys.stderr)


def _plain(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _has_hidden(text: str) -> bool:
    return not all(map(str.isprintable, text.split("\n")))


def _as_in_json(char: str) -> str:
    return char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1]


def _writable(text: str, stream: TextIO) -> str:
    """The text with what a terminal of another encoding has no characters for escaped."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _forget(stream: TextIO) -> None:
    # What is left in the buffer would fail again when the interpreter ends.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
