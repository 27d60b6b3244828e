"""What the gateway's processing mode asks of the answers (protocol §2.8, decision 28)."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from epp.request_control.response_rewriting import BodyPolicy
from epp.wire import ext_proc_pb2 as wire


class BodyMode(Enum):
    """How bodies travel, as far as our answers differ."""

    FULL_DUPLEX = auto()
    """Pieces come as they arrive; given back when and how we like."""
    BUFFERED = auto()
    """The whole body in one message, kept by the gateway."""
    BUFFERED_PARTIAL = auto()
    """The same, but it may be cut at the gateway's buffer."""
    STREAMED = auto()
    """Pieces that the gateway keeps; each wants one answer."""
    NONE = auto()
    """The body does not come by."""


WHOLE_BODIES = (BodyMode.BUFFERED, BodyMode.BUFFERED_PARTIAL)
"""The decision is the answer to the body."""
BODIES_LEFT_ALONE = (BodyMode.STREAMED, BodyMode.NONE)
"""The decision does not wait for the body."""

_MODES: dict[int, tuple[BodyMode, BodyPolicy]] = {
    wire.ProtocolConfiguration.NONE: (BodyMode.NONE, BodyPolicy.UNSEEN),
    wire.ProtocolConfiguration.STREAMED: (BodyMode.STREAMED, BodyPolicy.AT_ONCE),
    wire.ProtocolConfiguration.BUFFERED: (BodyMode.BUFFERED, BodyPolicy.WHOLE),
    wire.ProtocolConfiguration.BUFFERED_PARTIAL: (BodyMode.BUFFERED_PARTIAL, BodyPolicy.AT_ONCE),
}
"""For a body of the request, and of the response."""
# GRPC and what future versions add are close relatives of it.
_FULL_DUPLEX = (BodyMode.FULL_DUPLEX, BodyPolicy.HOLD)


class StreamModes(Struct, frozen=True):
    """Modes of one stream, fixed by its first message."""

    request: BodyMode
    response: BodyPolicy
    observing: bool = False
    """The gateway only shows its traffic and takes no answers."""
    may_leave_after_pick: bool = False
    """Whether a half-close right after the pick is how this gateway goes on without us: one that
    shows no response bodies, or one that names no modes and asks for the pick alone."""


def stream_modes(first: wire.ProcessingRequest) -> StreamModes:
    """Read the first message of a stream. Without a `protocol_config` it is full duplex."""
    if not first.HasField("protocol_config"):
        return StreamModes(*_FULL_DUPLEX, first.observability_mode, may_leave_after_pick=True)
    config = first.protocol_config
    request, _ = _MODES.get(config.request_body_mode, _FULL_DUPLEX)
    _, response = _MODES.get(config.response_body_mode, _FULL_DUPLEX)
    return StreamModes(
        request,
        response,
        first.observability_mode,
        may_leave_after_pick=response is BodyPolicy.UNSEEN,
    )
