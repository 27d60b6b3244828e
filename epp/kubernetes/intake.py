"""Takes what the API server tells of a resource into a store, and knows how far it has come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
import structlog

from epp.kubernetes.answers import KubeStatusError
from epp.kubernetes.collected import Collected
from epp.kubernetes.envelopes import (
    UNREADABLE,
    decode_bookmark,
    decode_event,
    decode_metadata,
    decode_status,
)
from epp.kubernetes.observer import EventType, KubernetesObserver, RelistReason, WatchErrorKind
from epp.kubernetes.resource import KubeObject, ObjectKey, Resource, T
from epp.kubernetes.store import Store, StoreChange

log = structlog.get_logger(__name__)

_Item = TypeVar("_Item")

_TURN_SECONDS = 0.002


class ErrorEvent(KubeStatusError):
    """An ERROR inside of a watch; the next one must not go on from there."""


@dataclass(slots=True)
class WatchStream(Generic[T]):
    """One watch."""

    initial: Collected[T] | None = None
    """Until all objects that existed at its start have been told, if it begins with these."""
    told: int = 0
    """Events and bookmarks."""


class Intake(Generic[T]):
    """Fills the store with lists and events.

    `on_synced` is called once, when everything has been told for the first time.
    """

    def __init__(
        self,
        resource: Resource[T],
        store: Store[T],
        observer: KubernetesObserver,
        *,
        turn_items: int,
        on_synced: Callable[[], None],
    ) -> None:
        self._resource = resource
        self._store = store
        self._observer = observer
        self._turn_items = turn_items
        self._on_synced = on_synced
        self._reached_version = ""
        self._relist_reason = RelistReason.FIRST
        self._told_unreadable: set[ObjectKey | None] = set()
        self.version: str | None = None
        """Where the next watch goes on; None: everything is to be asked for anew."""
        self.relists = 0
        self.synced = False
        """Whether the store has held everything at least once."""

    @property
    def is_behind(self) -> bool:
        """Whether something was told in vain, and has to be told again."""
        return self._store.is_behind

    def forget_version(self, reason: RelistReason) -> None:
        """Everything is to be asked for anew; what is known stays until then."""
        if self.version is not None:
            self.version = None
            self._relist_reason = reason

    async def take_page(self, collected: Collected[T], items: Sequence[msgspec.Raw]) -> None:
        """Add a page to a list; raises `EndlessList`."""
        collected.add_page()
        await self._in_turns(items, lambda item: self._collect(collected, item))

    async def take_lines(self, stream: WatchStream[T], lines: Sequence[bytes]) -> None:
        """Take in events; raises `ErrorEvent`, and `MsgspecError` for what is no event."""
        await self._in_turns(lines, lambda line: self._take(stream, line))

    def replace(self, collected: Collected[T], version: str) -> None:
        """A list is complete: these are all objects there are."""
        changes = self._store.replace(collected.objects.values(), collected.unreadable)
        self._told_unreadable &= collected.unreadable
        name = self._resource.name
        if reached := self._reached_version:
            repairs = sum(_should_be_known(change, reached, version) for change in changes)
            if repairs:
                self._observer.repaired(name, repairs)
                log.warning("a relist found what no watch told", resource=name, changes=repairs)
        self._observer.relisted(name, self._relist_reason)
        self.version = self._reached_version = version
        self.relists += 1

    def announce(self) -> None:
        """Tell that the store is complete, once it is. Not to be called inside a batch."""
        if self.relists and not self.synced:
            self.synced = True
            self._observer.synced(self._resource.name, True)
            self._on_synced()

    async def _in_turns(self, items: Sequence[_Item], take: Callable[[_Item], None]) -> None:
        """Take the items in one by one; a burst must not keep requests from the event loop."""
        position = 0
        while position < len(items):
            ends = time.perf_counter() + _TURN_SECONDS
            with self._store.batch():
                for item in items[position : position + self._turn_items]:
                    take(item)
                    position += 1
                    if time.perf_counter() > ends:
                        break
            self.announce()
            if position < len(items):
                await asyncio.sleep(0)

    def _take(self, stream: WatchStream[T], line: bytes) -> None:
        event = decode_event(line)
        try:
            type_ = EventType(event.type)
        except ValueError:
            raise msgspec.DecodeError(f"unknown type of event {event.type[:50]!r}") from None
        self._observer.event_received(self._resource.name, type_)
        if type_ is EventType.ERROR:
            status = decode_status(event.object)
            raise ErrorEvent(status.code, status.reason, status.message[:500])
        stream.told += 1
        if stream.initial is not None:
            self._take_initial(stream, stream.initial, type_, event.object)
        elif type_ is EventType.BOOKMARK:
            self._reached(decode_bookmark(event.object).metadata.resource_version)
        else:
            self._apply(type_, event.object)

    def _take_initial(
        self,
        stream: WatchStream[T],
        initial: Collected[T],
        type_: EventType,
        content: msgspec.Raw,
    ) -> None:
        # Their versions are in no order: none of them is a place to go on from.
        if type_ is EventType.DELETED:
            initial.discard(decode_metadata(content).key)
        elif type_ is not EventType.BOOKMARK:
            self._collect(initial, content)
        elif (bookmark := decode_bookmark(content)).ends_initial_events:
            stream.initial = None
            self.replace(initial, bookmark.metadata.resource_version)

    def _apply(self, type_: EventType, content: msgspec.Raw) -> None:
        metadata = decode_metadata(content)
        if type_ is EventType.DELETED:
            self._store.delete(metadata.key)
            self._told_unreadable.discard(metadata.key)
        elif (new := self._read(content)) is not None:
            self._store.upsert(new)
        self._reached(metadata.resource_version)

    def _reached(self, version: str) -> None:
        if version:
            self.version = self._reached_version = version

    def _collect(self, collected: Collected[T], content: msgspec.Raw) -> None:
        new = self._read(content)
        if new is not None:
            collected.add(new)
        elif key := _key_of(content):
            collected.add_unreadable(key)

    def _read(self, content: msgspec.Raw) -> KubeObject[T] | None:
        try:
            new = self._resource.decode(content)
        except UNREADABLE as error:
            self._skipped(_key_of(content), str(error))
            return None
        self._told_unreadable.discard(new.key)
        return new

    def _skipped(self, key: ObjectKey | None, problem: str) -> None:
        name = self._resource.name
        self._observer.watch_failed(name, WatchErrorKind.DECODE)
        # Once for each object: it is told anew at every change of it.
        if key not in self._told_unreadable:
            self._told_unreadable.add(key)
            log.warning(
                "object can't be read and is skipped",
                resource=name,
                object=str(key),
                problem=problem,
            )


def _key_of(content: msgspec.Raw) -> ObjectKey | None:
    try:
        return decode_metadata(content).key
    except UNREADABLE:
        return None


def _should_be_known(change: StoreChange[T], reached: str, listed: str) -> bool:
    """Whether a change that a list brought is older than what the watch had reached.

    A list that is itself older is that of a server that was restored, where versions begin anew.
    """
    version = change.new.resource_version if change.new else listed
    if not (version.isdigit() and reached.isdigit() and listed.isdigit()):
        return False
    return int(version) <= int(reached) <= int(listed)
