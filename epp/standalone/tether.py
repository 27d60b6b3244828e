"""Run by path, in front of a program that should not outlive the process that started it.

Envoy asks for that itself only with hot restart, which leaves files behind. The kernel keeps the
wish over `exec`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1


def tethered(command: Sequence[str]) -> list[str]:
    """The command line that runs `command` until this process, or its main thread, ends."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main(owner: int, command: list[str]) -> None:
    """Become `command`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != owner:  # it ended before it could be watched
            sys.exit(1)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} can't be started: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
