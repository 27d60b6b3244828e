"""What the API server wraps objects of any kind in: lists, lines of a watch, errors."""

from __future__ import annotations

import msgspec

from epp.kubernetes.resource import KubeObject, ObjectKey, T

UNREADABLE = (msgspec.MsgspecError, RecursionError)
"""What decoding raises, the latter for what is nested too deep."""


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What identifies an object of any kind."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None

    @property
    def key(self) -> ObjectKey:
        """What tells the object apart in a store."""
        return ObjectKey(self.namespace, self.name)

    def identify(self, value: T) -> KubeObject[T]:
        """The object, read as `value`."""
        return KubeObject(
            key=self.key, uid=self.uid, resource_version=self.resource_version, value=value
        )


class _Head(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata = Metadata()


class _ListMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ObjectList(msgspec.Struct, frozen=True, gc=False):
    """A page of a list; the items are still to be read, one by one."""

    metadata: _ListMetadata = _ListMetadata()
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """A line of a watch; the object is still to be read."""

    type: str
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _BookmarkMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """The object of a BOOKMARK: up to where the watch has told everything."""

    metadata: _BookmarkMetadata = _BookmarkMetadata()

    @property
    def ends_initial_events(self) -> bool:
        """Whether all objects that existed at the start of the watch have been told."""
        return (self.metadata.annotations or {}).get("k8s.io/initial-events-end") == "true"


class Status(msgspec.Struct, frozen=True, gc=False):
    """The object of an ERROR."""

    code: int = 0
    reason: str = ""
    message: str = ""


decode_list = msgspec.json.Decoder(ObjectList).decode
decode_event = msgspec.json.Decoder(WatchEvent).decode
decode_bookmark = msgspec.json.Decoder(Bookmark).decode
decode_status = msgspec.json.Decoder(Status).decode
_decode_head = msgspec.json.Decoder(_Head).decode


def decode_metadata(content: bytes | msgspec.Raw) -> Metadata:
    """Which object it is, whatever its kind."""
    return _decode_head(content).metadata
