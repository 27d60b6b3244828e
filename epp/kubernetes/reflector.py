"""Keeps a store in step with the API server: list, watch, resume, and list again when in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Generic

import structlog
from aiohttp import ClientTimeout

from epp.framework.errors import PickerError
from epp.kubernetes.answers import KubeResponse, KubeStatusError, KubeUnreachable, status_error
from epp.kubernetes.collected import Collected, EndlessList
from epp.kubernetes.envelopes import UNREADABLE, decode_list
from epp.kubernetes.intake import ErrorEvent, Intake, WatchStream
from epp.kubernetes.line_buffer import LineBuffer, LineTooLong
from epp.kubernetes.observer import RelistReason, WatchErrorKind
from epp.kubernetes.reflector_context import ReflectorContext
from epp.kubernetes.resource import Resource, T
from epp.kubernetes.store import Store
from epp.kubernetes.watch_failures import WatchFailures, kind_of_status

log = structlog.get_logger(__name__)

_WATCH_LIST_UNKNOWN = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
_VERSION_REFUSED = (*_WATCH_LIST_UNKNOWN, HTTPStatus.GATEWAY_TIMEOUT)


class _ShortStream(PickerError):
    """A stream ended before it told anything."""


class _NoInitialEvents(PickerError):
    """The API server does not know how to begin a watch with all objects."""


class Reflector(Generic[T]):
    """Lists and watches one resource for ever.

    It never forgets what it knows for want of an answer. `on_synced` is called once, when
    everything has been told for the first time.
    """

    def __init__(
        self,
        context: ReflectorContext,
        resource: Resource[T],
        store: Store[T],
        *,
        on_synced: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = context.client
        self._resource = resource
        self._observer = context.observer
        self._settings = settings = context.settings
        self._rng = context.rng
        self._now = context.now
        self._intake = Intake(
            resource, store, context.observer, turn_items=settings.turn_items, on_synced=on_synced
        )
        self._failures = WatchFailures(context, resource)
        self._use_watch_list = True
        self._watch_list_worked = False
        self._resync_interval = settings.resync_interval * context.rng.uniform(0.8, 1.2)
        self._synced_at = 0.0
        self._verb = "list"

    @property
    def synced(self) -> bool:
        """Whether the store has held everything at least once."""
        return self._intake.synced

    @property
    def problem(self) -> str | None:
        """Why the API server can't be followed just now, if it can't."""
        return self._failures.problem

    async def run(self) -> None:
        """Follow the resource for ever."""
        while True:
            pause = await self._attempt()
            await asyncio.sleep(pause)

    async def _attempt(self) -> float:
        """One list or watch; returns how long to wait before the next one."""
        if self._resync_interval and self._now() - self._synced_at >= self._resync_interval:
            self._intake.forget_version(RelistReason.PERIODIC)
        elif self._intake.is_behind:
            self._intake.forget_version(RelistReason.BEHIND)
        try:
            if self._intake.version is None:
                await self._sync()
            else:
                await self._watch(self._intake.version)
        except KubeStatusError as error:
            return self._refused(error)
        except KubeUnreachable as error:
            text = f"{self._client.server}: {error}"
            return self._failures.failed(WatchErrorKind.UNREACHABLE, self._verb, text)
        except _ShortStream as error:
            return self._failures.failed(WatchErrorKind.SHORT_STREAM, self._verb, str(error))
        except (*UNREADABLE, LineTooLong, EndlessList) as error:
            self._intake.forget_version(RelistReason.REFUSED)
            return self._failures.failed(WatchErrorKind.DECODE, self._verb, str(error))
        return 0.0

    async def _sync(self) -> None:
        if self._use_watch_list:
            try:
                await self._watch_list()
            except _NoInitialEvents as error:
                self._use_watch_list = False
                log.info("listing page by page", resource=self._resource.name, why=str(error))
            else:
                return
        await self._list()

    async def _watch_list(self) -> None:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._follow(query, WatchStream(initial=self._nothing_yet()))
        except ErrorEvent:
            raise
        except KubeStatusError as error:
            if error.status in _WATCH_LIST_UNKNOWN:
                raise _NoInitialEvents(str(error)) from error
            raise

    async def _list(self) -> None:
        self._verb = "list"
        settings = self._settings
        collected = self._nothing_yet()
        # Without a version: with one the server ignores the limit, or knows it no longer.
        query = {**self._resource.selection, "limit": str(settings.page_size)}
        while True:
            async with self._request(
                query, settings.list_read_timeout, settings.page_timeout
            ) as response:
                page = decode_list(await response.read())
            await self._intake.take_page(collected, page.items or ())
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
        self._intake.replace(collected, page.metadata.resource_version)
        self._intake.announce()
        self._synced_at = self._now()
        self._failures.works()

    def _nothing_yet(self) -> Collected[T]:
        settings = self._settings
        return Collected(most_objects=settings.max_objects, most_pages=settings.max_pages)

    async def _watch(self, version: str) -> None:
        stream: WatchStream[T] = WatchStream()
        started = self._now()
        try:
            await self._follow({"resourceVersion": version}, stream)
        finally:
            lived = self._now() - started
            if not stream.told and lived >= self._settings.silent_after:
                # The only way out when the version is from the future, as after a restore.
                self._intake.forget_version(RelistReason.SILENT)
        if not stream.told and lived < self._settings.shortest_stream:
            raise _ShortStream("the API server ended the watch at once")
        self._failures.works()

    async def _follow(self, query: dict[str, str], stream: WatchStream[T]) -> None:
        self._verb = "watch"
        settings = self._settings
        seconds = self._rng.uniform(*settings.watch_seconds)
        query = {
            **self._resource.selection,
            **query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        lines = LineBuffer(settings.max_line_bytes)
        longest = seconds + settings.watch_grace
        ends = self._now() + longest
        async with self._request(query, longest) as response:
            chunks = response.chunks()
            # What trickles for ever without an event would never be silent for long enough.
            while self._now() < ends and (chunk := await self._next_chunk(chunks, stream)):
                self._observer.contacted(self._resource.name)
                had_all = stream.initial is None
                await self._intake.take_lines(stream, lines.feed(chunk))
                if stream.initial is None and not had_all:
                    self._watch_list_worked = True
                    self._synced_at = self._now()
                if stream.told:
                    self._failures.works()
        if stream.initial is not None:
            raise KubeUnreachable("the watch ended before all objects were told")

    async def _next_chunk(self, chunks: AsyncIterator[bytes], stream: WatchStream[T]) -> bytes:
        waits_for_end = stream.initial is not None and not self._watch_list_worked
        limit = self._settings.initial_events_timeout if waits_for_end else None
        try:
            async with asyncio.timeout(limit):
                return await anext(chunks, b"")
        except TimeoutError:
            raise _NoInitialEvents("the end of the initial events was not told") from None

    @asynccontextmanager
    async def _request(
        self, query: dict[str, str], read_timeout: float, total: float | None = None
    ) -> AsyncIterator[KubeResponse]:
        settings = self._settings
        timeout = ClientTimeout(
            total=total, sock_connect=settings.connect_timeout, sock_read=read_timeout
        )
        async with self._client.request(
            "GET",
            self._resource.path,
            query=query,
            timeout=timeout,
            response_timeout=settings.response_timeout,
        ) as response:
            self._observer.contacted(self._resource.name)
            if response.status != HTTPStatus.OK:
                raise await status_error(response)
            self._failures.answered()
            yield response

    def _refused(self, error: KubeStatusError) -> float:
        kind = kind_of_status(error.status)
        if kind is WatchErrorKind.EXPIRED:
            self._intake.forget_version(RelistReason.EXPIRED)
        elif isinstance(error, ErrorEvent) or error.status in _VERSION_REFUSED:
            self._intake.forget_version(RelistReason.REFUSED)
        return self._failures.failed(kind, self._verb, str(error), error.retry_after)
