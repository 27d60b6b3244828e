"""Text for a person, or for the next program of a pipe."""

from __future__ import annotations

import os
import sys


def print_page(text: str) -> None:
    """Print `text`; a reader that has seen enough, such as `head`, is no mistake."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer would fail again when the interpreter ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
