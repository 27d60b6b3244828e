"""What is known of one resource, and what changes in it. Pure and synchronous."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic

import structlog

from epp.kubernetes.resource import KubeObject, ObjectKey, T
from epp.support.wordless import kind_of

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChange(Generic[T]):
    """One object before and after; None where it does not exist."""

    old: KubeObject[T] | None
    new: KubeObject[T] | None

    @property
    def key(self) -> ObjectKey:
        """Whose change it is."""
        known = self.new or self.old
        assert known is not None
        return known.key


StoreListener = Callable[[Sequence[StoreChange[T]]], None]


class Store(Generic[T]):
    """The objects of a resource by namespace and name.

    The listener is called with all changes of a batch, in order. An object that was replaced by
    another of the same name counts as deleted and added. What the listener fails to take in, the
    store does not know either, so that the next list tells it again.
    """

    def __init__(self, listener: StoreListener[T]) -> None:
        self._listener = listener
        self._objects: dict[ObjectKey, KubeObject[T]] = {}
        self._changes: list[StoreChange[T]] = []
        self._open_batches = 0
        self.is_behind = False
        """Whether the listener has failed since the last list."""

    def __len__(self) -> int:
        return len(self._objects)

    def objects(self) -> Collection[KubeObject[T]]:
        """All of them, as of now."""
        return self._objects.values()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Tell all changes made inside at once. Never await inside."""
        self._open_batches += 1
        try:
            yield
        finally:
            self._open_batches -= 1
            if not self._open_batches:
                self._tell()

    def upsert(self, new: KubeObject[T]) -> None:
        """Add an object, or replace it; what says the same changes nothing."""
        old = self._objects.get(new.key)
        self._objects[new.key] = new
        if old is None or old.uid == new.uid:
            if old is None or old.value != new.value:
                self._changed(old, new)
            return
        with self.batch():
            self._changed(old, None)
            self._changed(None, new)

    def delete(self, key: ObjectKey) -> None:
        """Forget an object; harmless when it is unknown."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._changed(old, None)

    def replace(
        self, objects: Iterable[KubeObject[T]], unreadable: Collection[ObjectKey] = ()
    ) -> Sequence[StoreChange[T]]:
        """Make these all there are, and return what that changed.

        Deletions come first. What is known of the `unreadable` ones stays.
        """
        current = {new.key: new for new in objects}
        self.is_behind = False
        with self.batch():
            before = len(self._changes)
            for key in self._objects.keys() - current.keys() - set(unreadable):
                self.delete(key)
            for new in current.values():
                self.upsert(new)
            return tuple(self._changes[before:])

    def _changed(self, old: KubeObject[T] | None, new: KubeObject[T] | None) -> None:
        with self.batch():
            self._changes.append(StoreChange(old=old, new=new))

    def _tell(self) -> None:
        changes, self._changes = self._changes, []
        if not changes:
            return
        try:
            self._listener(changes)
        except Exception:  # noqa: BLE001 - told below, where it is known of which change
            self._tell_one_by_one(changes)

    def _tell_one_by_one(self, changes: Sequence[StoreChange[T]]) -> None:
        """An object that can't be taken in must not cost the others; it stays as it was."""
        failed: set[ObjectKey] = set()
        for change in changes:
            key = change.key
            if key in failed:
                continue
            try:
                self._listener((change,))
            except Exception as error:
                log.exception("a change in the cluster could not be taken in", error=kind_of(error))
                failed.add(key)
                self.is_behind = True
                self._objects.pop(key, None)
                if change.old is not None:
                    self._objects[key] = change.old
