"""All objects of a resource while they arrive, and an end to lists that have none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from epp.framework.errors import PickerError
from epp.kubernetes.resource import KubeObject, ObjectKey, T


class EndlessList(PickerError):
    """A list has gone on for longer than any cluster's."""


@dataclass(slots=True, kw_only=True)
class Collected(Generic[T]):
    """What a list or the beginning of a watch has told so far; raises `EndlessList`."""

    most_objects: int
    most_pages: int
    objects: dict[ObjectKey, KubeObject[T]] = field(default_factory=dict)
    unreadable: set[ObjectKey] = field(default_factory=set)
    pages: int = 0

    def add_page(self) -> None:
        """Another page has come."""
        self.pages += 1
        if self.pages > self.most_pages:
            raise EndlessList(f"the list has more than {self.most_pages} pages")

    def add(self, new: KubeObject[T]) -> None:
        """An object was told."""
        self.objects[new.key] = new
        self._check()

    def add_unreadable(self, key: ObjectKey) -> None:
        """An object was told that can't be read."""
        self.unreadable.add(key)
        self._check()

    def discard(self, key: ObjectKey) -> None:
        """An object is gone again."""
        self.objects.pop(key, None)
        self.unreadable.discard(key)

    def _check(self) -> None:
        if len(self.objects) + len(self.unreadable) > self.most_objects:
            raise EndlessList(f"there are more than {self.most_objects} objects")
