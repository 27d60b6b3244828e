"""Text for a person, or for the next program of a pipe."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from epp.framework.errors import ConfigError
from epp.observability.safe_text import printable


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


def complain(program: str, *problems: str) -> None:
    """Tell of problems; they may quote anything, terminal escapes included."""
    for problem in problems:
        text = "\n".join(map(printable, problem.split("\n")))
        print(f"{program}: {text}", file=sys.stderr)


def _writable(text: str, stream: TextIO) -> str:
    """The text with what a terminal of another encoding has no characters for escaped."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _forget(stream: TextIO) -> None:
    # What is left in the buffer would fail again when the interpreter ends.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
