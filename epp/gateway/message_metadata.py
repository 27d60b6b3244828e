"""Dynamic metadata of a message as Python data, read when a plugin looks at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from google.protobuf.json_format import MessageToDict

if TYPE_CHECKING:
    from epp.framework.request import MetadataValue
    from epp.wire import ext_proc_pb2 as wire

NO_METADATA: Mapping[str, Mapping[str, MetadataValue]] = {}


class MessageMetadata(Mapping[str, Mapping[str, "MetadataValue"]]):
    """Namespaces of one message. Most requests have no plugin that would look."""

    __slots__ = ("_structs",)

    def __init__(self, metadata: wire.Metadata) -> None:
        self._structs = metadata.filter_metadata

    def __getitem__(self, namespace: str) -> Mapping[str, MetadataValue]:
        if namespace not in self._structs:
            raise KeyError(namespace)
        return MessageToDict(self._structs[namespace])

    def __iter__(self) -> Iterator[str]:
        return iter(self._structs)

    def __len__(self) -> int:
        return len(self._structs)


def metadata_of(
    message: wire.ProcessingRequest,
) -> Mapping[str, Mapping[str, MetadataValue]]:
    """The metadata of a message."""
    if not message.HasField("metadata_context"):
        return NO_METADATA
    return MessageMetadata(message.metadata_context)
