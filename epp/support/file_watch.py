"""Noticing that files have changed, Kubernetes volumes and missed notifications included."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from watchfiles import awatch

_LONGEST_DELAY_SECONDS = 1.6


async def watch_file(
    *paths: Path, quiet_seconds: float = 0.25, check_seconds: float = 1.0
) -> AsyncGenerator[None, None]:
    """Yield once at the start, then whenever one of the files (of one directory) has changed.

    Load after each yield: no later change is missed, however it falls. Writes in quick succession
    count as one, `quiet_seconds` after the last. A file or its directory may be missing, appear
    later and be replaced. It ends by `aclose` or by cancelling its user.
    """
    directory = paths[0].parent
    names = {path.name for path in paths}
    seen = await asyncio.to_thread(_states, paths)
    yield
    while True:
        watched = await asyncio.to_thread(_identity, directory)
        async with aclosing(_wakes(directory, quiet_seconds, check_seconds)) as wakes:
            async for changed_names in wakes:
                current = await asyncio.to_thread(_states, paths)
                if current != seen or names & changed_names:
                    seen = current
                    yield
                if await asyncio.to_thread(_identity, directory) != watched:
                    break


async def _wakes(
    directory: Path, quiet_seconds: float, check_seconds: float
) -> AsyncGenerator[set[str], None]:
    """Yield the names that notifications carry, and every `check_seconds` an empty set.

    The latter finds a directory that was replaced, and changes on file systems that notify of
    none. Where there is nothing to watch (yet), it comes alone.
    """
    changes_of_directory = awatch(
        directory,
        watch_filter=None,
        step=round(quiet_seconds * 1000),
        debounce=round(_LONGEST_DELAY_SECONDS * 1000),
        rust_timeout=round(check_seconds * 1000),
        yield_on_timeout=True,
        recursive=False,
    )
    async with aclosing(changes_of_directory):
        try:
            async for changes in changes_of_directory:
                yield {os.path.basename(name) for _, name in changes}
        except (OSError, RuntimeError):  # no such directory, or no inotify watches left
            await asyncio.sleep(check_seconds)
            yield set()


def _states(paths: Sequence[Path]) -> list[tuple[int, ...] | None]:
    return [_state(path) for path in paths]


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _identity(directory: Path) -> tuple[int, ...] | None:
    state = _state(directory)
    return state and state[:2]
