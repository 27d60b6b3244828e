"""One inference request and its response, free of any protocol."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from epp.framework.endpoint import Endpoint
    from epp.framework.headers import Headers
    from epp.framework.parsed_request import ParsedRequest
    from epp.framework.trail import Trail
    from epp.framework.usage import Usage

DEFAULT_FAIRNESS_ID = "default-flow"

MetadataValue: TypeAlias = "str | float | bool | list[Any] | dict[str, Any] | None"
"""What a protobuf Struct can hold."""


class TerminationCause(StrEnum):
    """What ended a request that had an endpoint."""

    NATURAL = "natural"
    CLIENT_DISCONNECT = "client-disconnect"
    ERROR = "error"
    EVICTED = "evicted"


# A decision makes a dozen of these and their like: 0.1 to 0.2 µs each, as dataclasses 0.4 to 0.8.
class InferenceRequest(Struct, kw_only=True, eq=False):
    """What plugins see of a request. One object per stream; compared by identity."""

    id: str
    """Value of `x-request-id`: for logs, never a key (decision 31)."""
    path: str
    """Path without its query string."""
    headers: Headers
    parsed: ParsedRequest | None
    """None for a request that is picked for without its body."""
    incoming_model: str = ""
    target_model: str = ""
    priority: int = 0
    fairness_id: str = DEFAULT_FAIRNESS_ID
    size_bytes: int = 0
    """Length of the body as received."""
    is_dry_run: bool = False
    """Whether it is only asked where it would go: nothing of it is counted or remembered."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Values of `DataType`s with scope REQUEST, by key; keys of your own may be added."""
    candidate_attributes: dict[str, Mapping[Endpoint, Any]] = field(default_factory=dict)
    """Values of `DataType`s with scope CANDIDATE, by key, then by endpoint. While a response comes
    those of the endpoints that were picked."""
    transient_attributes: list[str] = field(default_factory=list)
    """Keys of `attributes` that are dropped after the pick."""
    dynamic_metadata: dict[str, dict[str, MetadataValue]] = field(default_factory=dict)
    """Namespaces of values for the gateway, sent with the decision. The destination's keys are
    the picker's own: they win."""
    trail: Trail | None = None
    """What happened to it until it had its endpoint; None where nobody will ask."""

    def let_go_of_body(self) -> None:
        """Drop what keeps the body, or something as large, alive: the pick is made."""
        if self.parsed is not None:
            self.parsed.read_prompts = None
        for key in self.transient_attributes:
            self.attributes.pop(key, None)


class InferenceResponse(Struct, kw_only=True, eq=False):
    """What plugins see of a response, as far as it has arrived."""

    headers: Headers
    status: int
    streaming: bool
    started: bool = False
    ended: bool = False
    termination_cause: TerminationCause | None = None
    metadata: Mapping[str, Mapping[str, MetadataValue]] = field(default_factory=dict)
    """Dynamic metadata of the gateway that came with the headers, by namespace."""
    usage: Usage | None = None
    streamed_events: int = 0
    body_is_seen: bool = True
    """Whether the gateway shows response bodies at all."""
    body_bytes: int = 0
