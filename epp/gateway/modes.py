"""What the gateway's processing mode asks of the answers (protocol §2.8, decision 28)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from epp.request_control.response import BodyPolicy
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


_MODES = {
    wire.ProtocolConfiguration.NONE: BodyMode.NONE,
    wire.ProtocolConfiguration.STREAMED: BodyMode.STREAMED,
    wire.ProtocolConfiguration.BUFFERED: BodyMode.BUFFERED,
    wire.ProtocolConfiguration.BUFFERED_PARTIAL: BodyMode.BUFFERED_PARTIAL,
}

_RESPONSE_POLICIES = {
    BodyMode.FULL_DUPLEX: BodyPolicy.HOLD,
    BodyMode.BUFFERED: BodyPolicy.WHOLE,
    BodyMode.BUFFERED_PARTIAL: BodyPolicy.AT_ONCE,
    BodyMode.STREAMED: BodyPolicy.AT_ONCE,
    BodyMode.NONE: BodyPolicy.UNSEEN,
}


@dataclass(frozen=True, slots=True)
class StreamModes:
    """Modes of one stream, fixed by its first message."""

    request: BodyMode
    response: BodyPolicy
    observing: bool
    """The gateway only shows its traffic and takes no answers."""


def stream_modes(first: wire.ProcessingRequest) -> StreamModes:
    """Read the first message of a stream. Without a `protocol_config` it is full duplex."""
    if not first.HasField("protocol_config"):
        request = response = BodyMode.FULL_DUPLEX
    else:
        # GRPC and what future versions add are close relatives of full duplex.
        config = first.protocol_config
        request = _MODES.get(config.request_body_mode, BodyMode.FULL_DUPLEX)
        response = _MODES.get(config.response_body_mode, BodyMode.FULL_DUPLEX)
    return StreamModes(request, _RESPONSE_POLICIES[response], first.observability_mode)
