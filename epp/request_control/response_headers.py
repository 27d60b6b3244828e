"""What response headers say, and what we add to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from epp.request_control.explanation import decision_text

if TYPE_CHECKING:
    from epp.framework.headers import Headers
    from epp.request_control.active_request import ActiveRequest

SERVED_ENDPOINT_HEADER = "x-gateway-destination-endpoint-served"
DECISION_HEADER = "x-epp-decision"
DEBUG_HEADER = "x-went-into-resp-headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSettings:
    """What is added to response headers."""

    served_endpoint_header: bool = False
    debug_header: bool = False
    decision_header: bool = False


def headers_of_ours(
    settings: ResponseSettings, active: ActiveRequest | None
) -> dict[str, bytes | None]:
    """What we tell the client, or a test, about the decision."""
    own: dict[str, bytes | None] = {}
    if settings.served_endpoint_header and active is not None and active.serving is not None:
        own[SERVED_ENDPOINT_HEADER] = active.serving.address.encode()
    if settings.decision_header and active is not None and active.result is not None:
        own[DECISION_HEADER] = decision_text(active.result).encode()
    if settings.debug_header:
        own[DEBUG_HEADER] = b"true"
    return own


def status_of(headers: Headers) -> int:
    """The HTTP status; 0 if there is none."""
    status = headers.get(":status") or ""
    return int(status) if status.isascii() and status.isdigit() and len(status) == 3 else 0


def is_interim(headers: Headers) -> bool:
    """Whether these are a 1xx response, behind which the response is yet to come; 101 is the last
    of HTTP."""
    status = headers.as_mapping().get(":status", b"")
    return status[:1] == b"1" and status != b"101"


def is_streaming(media_type: str, active: ActiveRequest) -> bool:
    """Whether a stream is coming: by the response's own type; the request's word counts only
    without one (D16)."""
    if "text/event-stream" in media_type:
        return True
    if media_type and not media_type.startswith("application/grpc"):
        return False
    parsed = active.request.parsed
    return parsed is not None and parsed.stream


def is_readable(headers: Headers) -> bool:
    """Whether the body comes without a content coding."""
    return (headers.get("content-encoding") or "identity").strip().lower() == "identity"
