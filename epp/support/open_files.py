"""How many files, connections included, this process may have open at a time."""

from __future__ import annotations

import contextlib
import resource

MOST = 1 << 20
"""As far as the limit is raised where there is none."""


def raise_open_files_limit() -> None:
    """Allow as many as the system lets us: shells and services often hand out 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_files_limit() -> int:
    """The limit in force."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else soft
