"""What the gateway's processing mode asks of the answers (protocol §2.8, decision 28)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

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


_MODES: dict[int, BodyMode] = {
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
    observing: bool = False
    """The gateway only shows its traffic and takes no answers."""
    may_leave_after_pick: bool = False
    """Whether a half-close right after the pick is how this gateway goes on without us: one that
    shows no response bodies, or one that names no modes and asks for the pick alone."""


def stream_modes(first: wire.ProcessingRequest) -> StreamModes:
    """Read the first message of a stream. Without a `protocol_config` it is full duplex."""
    if not first.HasField("protocol_config"):
        return StreamModes(
            BodyMode.FULL_DUPLEX,
            BodyPolicy.HOLD,
            first.observability_mode,
            may_leave_after_pick=True,
        )
    config = first.protocol_config
    return _modes(config.request_body_mode, config.response_body_mode, first.observability_mode)


@lru_cache(maxsize=128)
def _modes(request_mode: int, response_mode: int, observing: bool) -> StreamModes:
    # GRPC and what future versions add are close relatives of full duplex.
    request = _MODES.get(request_mode, BodyMode.FULL_DUPLEX)
    response = _MODES.get(response_mode, BodyMode.FULL_DUPLEX)
    unseen = response is BodyMode.NONE
    return StreamModes(request, _RESPONSE_POLICIES[response], observing, unseen)
