"""One inference request and its response, free of any protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from epp.framework.headers import Headers
    from epp.framework.request_handling import ParsedRequest
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


@dataclass(slots=True, kw_only=True, eq=False)
class InferenceRequest:
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
    attributes: dict[str, Any] = field(default_factory=dict)
    """What plugins tell one another about this request."""
    dynamic_metadata: dict[str, dict[str, MetadataValue]] = field(default_factory=dict)
    """Namespaces of values for the gateway, sent with the decision. The destination's keys are
    the picker's own: they win."""


@dataclass(slots=True, kw_only=True, eq=False)
class InferenceResponse:
    """What plugins see of a response, as far as it has arrived."""

    headers: Headers
    status: int
    streaming: bool
    started: bool = False
    ended: bool = False
    termination_cause: TerminationCause | None = None
    usage: Usage | None = None
    streamed_events: int = 0
    body_bytes: int = 0
