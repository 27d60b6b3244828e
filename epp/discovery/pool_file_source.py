"""Keeps the datastore in step with a pool file."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

import structlog

from epp.datastore.datastore import Datastore
from epp.discovery.pool_file import DEFAULT_POOL_NAME, PoolFile, parse_pool_file, read_content
from epp.framework.errors import ConfigError
from epp.support.file_watch import watch_file

log = structlog.get_logger(__name__)

_MOST_LINES = 20

Watch = Callable[[Path], AsyncGenerator[None, None]]


class PoolFileObserver(Protocol):
    """Counts what happens to the file."""

    def pool_file_loaded(self, *, skipped_entries: int) -> None:
        """A version of the file is in force."""

    def pool_file_failed(self) -> None:
        """A version of the file is broken as a whole; the last good one stays."""


class PoolFileSource:
    """Loads the file at the start, then again whenever it changes."""

    def __init__(
        self,
        path: Path,
        datastore: Datastore,
        observer: PoolFileObserver,
        *,
        default_namespace: str = "default",
        default_pool_name: str = "",
        watch: Watch = watch_file,
    ) -> None:
        self._path = path
        self._datastore = datastore
        self._observer = observer
        self._default_namespace = default_namespace
        self._default_pool_name = default_pool_name or DEFAULT_POOL_NAME
        self._watch = watch
        self._content: bytes | None = None
        self._broken: str | None = None
        """Why the file as it is now is not in force."""
        self._skipped: tuple[str, ...] = ()
        self._reported: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Why the file as it is now is not in force, or which of its entries are not."""
        if self._broken is not None or not self._skipped:
            return self._broken
        lines = textwrap.indent("\n".join(_first(self._skipped)), "  ")
        return f"pool file {self._path}: entries skipped: {len(self._skipped)}\n{lines}"

    def load(self) -> None:
        """Read the file for the first time, before the event loop serves; raises `ConfigError`."""
        self._content = read_content(self._path)
        self._apply(self._parse(self._content))

    async def run(self) -> None:
        """Follow the file for ever."""
        async with aclosing(self._watch(self._path)) as changes:
            async for _ in changes:
                await self._reload()

    async def _reload(self) -> None:
        try:
            content = await asyncio.to_thread(read_content, self._path)
            if content == self._content and self._broken is None:
                return
            pool_file = await asyncio.to_thread(self._parse, content)
        except ConfigError as error:
            self._keep_last(str(error))
            return
        self._content = content
        self._apply(pool_file)
        if self._broken is not None:
            log.info("pool file is usable again", file=str(self._path))
        self._broken = None

    def _parse(self, content: bytes) -> PoolFile:
        try:
            return parse_pool_file(
                content,
                default_namespace=self._default_namespace,
                default_pool_name=self._default_pool_name,
            )
        except ConfigError as error:
            raise ConfigError(f"pool file {self._path}: {error}") from error

    def _keep_last(self, problem: str) -> None:
        self._observer.pool_file_failed()
        if problem != self._broken:
            log.error("pool file is broken, the last good one stays", problem=problem)
        self._broken = problem

    def _apply(self, pool_file: PoolFile) -> None:
        self._datastore.priorities = pool_file.priorities
        with self._datastore.batch():
            self._datastore.set_pool(pool_file.pool)
            self._datastore.set_pods(pool_file.pods)
            self._datastore.mark_synced()
        self._skipped = pool_file.skipped
        self._observer.pool_file_loaded(skipped_entries=len(pool_file.skipped))
        self._report(pool_file)

    def _report(self, pool_file: PoolFile) -> None:
        """Say what is odd about the file, once for as long as it stays so."""
        path = str(self._path)
        log.info(
            "pool file loaded",
            file=path,
            pool=f"{pool_file.pool.namespace}/{pool_file.pool.name}",
            endpoints=len(self._datastore.snapshot().endpoints),
        )
        oddities = (*pool_file.skipped, *pool_file.warnings, *pool_file.ignored_kinds)
        if oddities == self._reported:
            return
        self._reported = oddities
        for problem in _first(pool_file.skipped):
            log.error("pool file entry skipped", file=path, problem=problem)
        for problem in _first(pool_file.warnings):
            log.warning("pool file is odd", file=path, problem=problem)
        for kind in _first(pool_file.ignored_kinds):
            log.info("manifests ignored", file=path, kind=kind)


def _first(lines: tuple[str, ...]) -> list[str]:
    rest = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([f"and {rest} more"] if rest > 0 else [])]
