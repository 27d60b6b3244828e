"""A kind of object as it is listed and watched: where it is served and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")


class ObjectKey(NamedTuple):
    """What tells the objects of one resource apart at one moment."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class KubeObject(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object reduced to its identity and to what is read of it."""

    key: ObjectKey
    uid: str
    resource_version: str
    value: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[T]):
    """One resource of one namespace, or the part of it that the selectors select.

    Without a namespace it is one of the whole cluster.
    """

    name: str
    """The plural, as in the path."""
    group: str = ""
    version: str
    namespace: str
    label_selector: str = ""
    field_selector: str = ""
    is_optional: bool = False
    """Whether the process does without it where it is not served, or not allowed."""
    decode: Callable[[bytes | msgspec.Raw], KubeObject[T]]
    """Raises `msgspec.MsgspecError` for an object that can't be read."""

    @property
    def path(self) -> str:
        """The path of the collection."""
        api = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{api}{place}/{self.name}"

    @property
    def selection(self) -> Mapping[str, str]:
        """The part of a query that selects."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: text for name, text in selectors.items() if text}
