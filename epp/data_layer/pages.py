"""Chooses the client for each page, and changes it when a server needs the other one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from epp.data_layer.connection_budget import ConnectionBudget
from epp.data_layer.http_client import RawClient, RawPage, is_plain
from epp.data_layer.http_fallback import CompleteClient
from epp.data_layer.inbox import Inbox
from epp.data_layer.page import Page, PageReader
from epp.support.tasks import TaskOwner

if TYPE_CHECKING:
    from epp.data_layer.timetable import Timetable
    from epp.framework.data_layer import HttpTarget


class Pages:
    """Opens pages, and owns what they share."""

    def __init__(
        self,
        timetable: Timetable,
        now: Callable[[], float],
        *,
        timeout_seconds: float,
        max_connections: int,
    ) -> None:
        self._tasks = TaskOwner()
        self._inbox = Inbox(timetable, now)
        self._raw = RawClient(
            tasks=self._tasks, inbox=self._inbox, budget=ConnectionBudget(max_connections)
        )
        self._complete = CompleteClient(self._tasks, timeout_seconds, max_connections)

    def open(self, target: HttpTarget, reader: PageReader) -> Page:
        """The page `target` names; nothing is asked yet."""
        if is_plain(target):
            return _PlainPage(target, reader, self._raw, self._complete)
        return self._complete.page(target, reader)

    async def aclose(self) -> None:
        """Let go of everything; close the pages first."""
        await self._tasks.aclose()
        self._inbox.close()
        await self._complete.aclose()


class _PlainPage:
    """Read raw; after an answer that was not understood completely, until that fails too."""

    def __init__(
        self,
        target: HttpTarget,
        reader: PageReader,
        raw: RawClient,
        complete: CompleteClient,
    ) -> None:
        self._reader = reader
        self._raw = RawPage(target, reader, raw, self._change)
        told = PageReader(page=reader.page, failure=self._complete_failed)
        self._complete = complete.page(target, told)
        self._current: Page = self._raw

    def fetch(self) -> None:
        """Ask for the page."""
        self._current.fetch()

    def abort(self) -> None:
        """Give up the request in flight."""
        self._current.abort()

    def close(self) -> None:
        """Let go of both ways."""
        self._raw.close()
        self._complete.close()

    def _change(self) -> None:
        self._current = self._complete
        self._complete.fetch()

    def _complete_failed(self, reason: str) -> None:
        self._current = self._raw
        self._reader.failure(reason)
