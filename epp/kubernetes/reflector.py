"""Keeps a store in step with the API server: list, watch, resume, and list again when in doubt."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec
import structlog
from aiohttp import ClientTimeout

from epp.framework.errors import PickerError
from epp.kubernetes.backoff import Backoff
from epp.kubernetes.client import (
    KubeClient,
    KubeResponse,
    KubeStatusError,
    KubeUnreachable,
    status_error,
)
from epp.kubernetes.failure_report import FailureReport
from epp.kubernetes.line_buffer import LineBuffer, LineTooLong
from epp.kubernetes.objects import (
    decode_bookmark,
    decode_event,
    decode_list,
    decode_metadata,
    decode_status,
)
from epp.kubernetes.observer import EventType, KubernetesObserver, RelistReason, WatchErrorKind
from epp.kubernetes.reflector_settings import ReflectorSettings
from epp.kubernetes.resource import KubeObject, ObjectKey, Resource, T
from epp.kubernetes.store import Store, StoreChange

log = structlog.get_logger(__name__)

_Item = TypeVar("_Item")

_KINDS = {
    401: WatchErrorKind.UNAUTHORIZED,
    403: WatchErrorKind.FORBIDDEN,
    404: WatchErrorKind.NOT_FOUND,
    410: WatchErrorKind.EXPIRED,
    429: WatchErrorKind.THROTTLED,
}
_WATCH_LIST_UNKNOWN = (400, 422)
_VERSION_REFUSED = (400, 410, 422, 504)


class _ErrorEvent(KubeStatusError):
    """An ERROR inside of a watch; the next one must not go on from there."""


class _ShortStream(PickerError):
    """A stream ended before it told anything."""


class _NoInitialEvents(PickerError):
    """The API server does not know how to begin a watch with all objects."""


@dataclass(slots=True)
class _Collected(Generic[T]):
    """A list while it arrives."""

    objects: dict[ObjectKey, KubeObject[T]] = field(default_factory=dict)
    unreadable: set[ObjectKey] = field(default_factory=set)


@dataclass(slots=True)
class _Stream(Generic[T]):
    """One watch."""

    initial: _Collected[T] | None
    """Until all objects that existed at its start have been told."""
    told: int = 0
    """Events and bookmarks."""


class Reflector(Generic[T]):
    """Lists and watches one resource for ever.

    It never forgets what it knows for want of an answer. `on_synced` is called once, when
    everything has been told for the first time.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        store: Store[T],
        observer: KubernetesObserver,
        settings: ReflectorSettings,
        rng: random.Random,
        now: Callable[[], float] = time.monotonic,
        *,
        on_synced: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._observer = observer
        self._settings = settings
        self._rng = rng
        self._now = now
        self._on_synced = on_synced
        self._backoff = Backoff(
            first=settings.first_pause,
            longest=settings.longest_pause,
            reset_after=settings.pause_reset_after,
            rng=rng,
            now=now,
        )
        self._report = FailureReport(resource)
        self._use_watch_list = True
        self._watch_list_worked = False
        self._version: str | None = None
        """Where the next watch goes on; None: everything is to be asked for anew."""
        self._seen_version = ""
        self._relist_reason = RelistReason.FIRST
        self._resync_at = 0.0
        self._last_failure: WatchErrorKind | None = None
        self._verb = "list"
        self.synced = False
        """Whether the store has held everything at least once."""

    @property
    def problem(self) -> str | None:
        """Why the API server can't be followed just now, if it can't."""
        return self._report.problem

    async def run(self) -> None:
        """Follow the resource for ever."""
        while True:
            pause = await self._attempt()
            await asyncio.sleep(pause)

    async def _attempt(self) -> float:
        """One list or watch; returns how long to wait before the next one."""
        settings = self._settings
        if self._version and settings.resync_interval and self._now() >= self._resync_at:
            self._forget_version(RelistReason.PERIODIC)
        try:
            if self._version is None:
                await self._sync()
            else:
                await self._watch(self._version)
        except KubeStatusError as error:
            return self._status_failed(error)
        except KubeUnreachable as error:
            return self._failed(WatchErrorKind.UNREACHABLE, str(error))
        except _ShortStream as error:
            return self._failed(WatchErrorKind.SHORT_STREAM, str(error))
        except (msgspec.MsgspecError, LineTooLong) as error:
            self._forget_version(RelistReason.REFUSED)
            return self._failed(WatchErrorKind.DECODE, str(error))
        if self._verb == "watch":
            self._works()
        return 0.0

    # -- everything ---------------------------------------------------------------------------

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
        query = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        }
        try:
            await self._follow(query, _Stream(initial=_Collected()))
        except _ErrorEvent:
            raise
        except KubeStatusError as error:
            if error.status in _WATCH_LIST_UNKNOWN:
                raise _NoInitialEvents(str(error)) from error
            raise

    async def _list(self) -> None:
        self._verb = "list"
        settings = self._settings
        collected: _Collected[T] = _Collected()
        query = {**self._resource.selection, "limit": str(settings.page_size)}
        while True:
            async with self._request(query, settings.list_read_timeout) as response:
                page = decode_list(await response.read())
            self._observer.contacted(self._resource.name)
            await self._in_turns(page.items or (), lambda item: self._collect(collected, item))
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
        self._replace(collected, page.metadata.resource_version)
        self._announce()

    def _collect(self, collected: _Collected[T], content: msgspec.Raw) -> None:
        new = self._read(content)
        if new is not None:
            collected.objects[new.key] = new
        elif key := _key_of(content):
            collected.unreadable.add(key)

    def _replace(self, collected: _Collected[T], version: str) -> None:
        changes = self._store.replace(collected.objects.values(), collected.unreadable)
        name = self._resource.name
        if self._seen_version and (repairs := _repairs(changes, self._seen_version, version)):
            self._observer.repaired(name, repairs)
            log.warning("a relist found what no watch told", resource=name, changes=repairs)
        self._observer.relisted(name, self._relist_reason)
        self._version = self._seen_version = version
        interval = self._settings.resync_interval
        self._resync_at = self._now() + interval * self._rng.uniform(0.8, 1.2)
        self._report.works()

    def _announce(self) -> None:
        if self._seen_version and not self.synced:
            self.synced = True
            self._observer.synced(self._resource.name, True)
            self._on_synced()

    # -- changes ------------------------------------------------------------------------------

    async def _watch(self, version: str) -> None:
        stream: _Stream[T] = _Stream(initial=None)
        started = self._now()
        try:
            await self._follow({"resourceVersion": version}, stream)
        finally:
            lived = self._now() - started
            if not stream.told and lived >= self._settings.silent_after:
                # The only way out when the version is from the future, as after a restore.
                self._forget_version(RelistReason.SILENT)
        if not stream.told and lived < self._settings.shortest_stream:
            raise _ShortStream("the API server ended the watch at once")

    async def _follow(self, query: dict[str, str], stream: _Stream[T]) -> None:
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
        async with self._request(query, seconds + settings.watch_grace) as response:
            chunks = response.chunks()
            while chunk := await self._next_chunk(chunks, stream):
                self._observer.contacted(self._resource.name)
                await self._in_turns(lines.feed(chunk), lambda line: self._take(stream, line))
        if stream.initial is not None:
            raise KubeUnreachable("the watch ended before all objects were told")

    async def _next_chunk(self, chunks: AsyncIterator[bytes], stream: _Stream[T]) -> bytes:
        waits_for_end = stream.initial is not None and not self._watch_list_worked
        limit = self._settings.initial_events_timeout if waits_for_end else None
        try:
            async with asyncio.timeout(limit):
                return await anext(chunks, b"")
        except TimeoutError:
            raise _NoInitialEvents("the end of the initial events was not told") from None

    def _take(self, stream: _Stream[T], line: bytes) -> None:
        event = decode_event(line)
        try:
            type_ = EventType(event.type)
        except ValueError:
            raise msgspec.DecodeError(f"unknown type of event {event.type[:50]!r}") from None
        self._observer.event_received(self._resource.name, type_)
        if type_ is EventType.ERROR:
            status = decode_status(event.object)
            raise _ErrorEvent(status.code, status.reason, status.message[:500])
        stream.told += 1
        if stream.initial is not None:
            self._take_initial(stream, stream.initial, type_, event.object)
        elif type_ is EventType.BOOKMARK:
            self._reached(decode_bookmark(event.object).metadata.resource_version)
        else:
            self._apply(type_, event.object)

    def _take_initial(
        self,
        stream: _Stream[T],
        initial: _Collected[T],
        type_: EventType,
        content: msgspec.Raw,
    ) -> None:
        # Their versions are in no order: none of them is a place to go on from.
        if type_ is EventType.DELETED:
            initial.objects.pop(decode_metadata(content).key, None)
        elif type_ is not EventType.BOOKMARK:
            self._collect(initial, content)
        elif (bookmark := decode_bookmark(content)).ends_initial_events:
            stream.initial = None
            self._watch_list_worked = True
            self._replace(initial, bookmark.metadata.resource_version)

    def _apply(self, type_: EventType, content: msgspec.Raw) -> None:
        metadata = decode_metadata(content)
        if type_ is EventType.DELETED:
            self._store.delete(metadata.key)
        elif (new := self._read(content)) is not None:
            self._store.upsert(new)
        self._reached(metadata.resource_version)

    def _reached(self, version: str) -> None:
        if version:
            self._version = self._seen_version = version
        self._works()

    def _read(self, content: msgspec.Raw) -> KubeObject[T] | None:
        try:
            return self._resource.decode(content)
        except msgspec.MsgspecError as error:
            name = self._resource.name
            self._observer.watch_failed(name, WatchErrorKind.DECODE)
            log.warning(
                "object can't be read and is skipped",
                resource=name,
                object=str(_key_of(content)),
                problem=str(error),
            )
            return None

    # -- requests and failures ----------------------------------------------------------------

    @asynccontextmanager
    async def _request(
        self, query: dict[str, str], read_timeout: float
    ) -> AsyncIterator[KubeResponse]:
        settings = self._settings
        timeout = ClientTimeout(sock_connect=settings.connect_timeout, sock_read=read_timeout)
        async with self._client.request(
            "GET",
            self._resource.path,
            query=query,
            timeout=timeout,
            response_timeout=settings.response_timeout,
        ) as response:
            self._observer.contacted(self._resource.name)
            if response.status != 200:
                raise await status_error(response)
            yield response

    async def _in_turns(self, items: Sequence[_Item], take: Callable[[_Item], None]) -> None:
        """Take the items in one by one; a burst must not keep requests from the event loop."""
        position = 0
        while position < len(items):
            ends = time.perf_counter() + self._settings.turn_seconds
            with self._store.batch():
                for item in items[position : position + self._settings.turn_items]:
                    take(item)
                    position += 1
                    if time.perf_counter() > ends:
                        break
            self._announce()
            if position < len(items):
                await asyncio.sleep(0)

    def _forget_version(self, reason: RelistReason) -> None:
        if self._version is not None:
            self._version = None
            self._relist_reason = reason

    def _status_failed(self, error: KubeStatusError) -> float:
        kind = _KINDS.get(error.status, WatchErrorKind.STATUS)
        if kind is WatchErrorKind.EXPIRED:
            self._forget_version(RelistReason.EXPIRED)
        elif isinstance(error, _ErrorEvent) or error.status in _VERSION_REFUSED:
            self._forget_version(RelistReason.REFUSED)
        return self._failed(kind, str(error), retry_after=error.retry_after or 0.0)

    def _failed(self, kind: WatchErrorKind, problem: str, retry_after: float = 0.0) -> float:
        settings = self._settings
        if kind is WatchErrorKind.EXPIRED and self._last_failure is not kind:
            pause = self._rng.uniform(0, settings.relist_spread)
        else:
            pause = self._backoff.failed(min(retry_after, settings.longest_retry_after))
        self._last_failure = kind
        self._observer.watch_failed(self._resource.name, kind)
        self._report.failed(kind, self._verb, problem, pause)
        return pause

    def _works(self) -> None:
        self._last_failure = None
        self._report.works()


def _key_of(content: msgspec.Raw) -> ObjectKey | None:
    try:
        return decode_metadata(content).key
    except msgspec.MsgspecError:
        return None


def _repairs(changes: Sequence[StoreChange[T]], seen: str, listed: str) -> int:
    """How many of the changes a list brought are older than what the watch had reached."""
    return sum(
        _is_not_newer(change.new.resource_version if change.new else listed, seen)
        for change in changes
    )


def _is_not_newer(version: str, seen: str) -> bool:
    return version.isdigit() and seen.isdigit() and int(version) <= int(seen)
