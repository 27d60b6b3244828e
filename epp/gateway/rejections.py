"""What this room rejects requests for, before anything is known of their content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.framework.errors import ErrorCode, PlainRejection, Rejection

if TYPE_CHECKING:
    from epp.framework.headers import Headers

_MOST_DIGITS = 18


def declares_more(headers: Headers, limit: int) -> bool:
    """Whether a body of more than `limit` bytes is to come, by what the client says."""
    declared = headers.get("content-length") or ""
    if not declared.isascii() or not declared.isdigit() or len(declared) > _MOST_DIGITS:
        return False
    return int(declared) > limit


def body_too_large(limit: int) -> Rejection:
    """The body is over the cap; the rest of it is not read."""
    return PlainRejection(
        ErrorCode.PAYLOAD_TOO_LARGE, f"request body is larger than the allowed {limit} bytes"
    )


def told_too_much(limit: int) -> Rejection:
    """Headers or metadata are over what is read."""
    return PlainRejection(
        ErrorCode.PAYLOAD_TOO_LARGE,
        f"request headers and metadata are larger than the allowed {limit} bytes",
    )


def tunnel_without_end() -> Rejection:
    """The gateway would wait for the end of what has none before it opens the tunnel."""
    return PlainRejection(
        ErrorCode.BAD_REQUEST,
        "WebSocket and CONNECT need a gateway that streams request bodies, this one buffers them",
    )


def body_stopped(timeout: float) -> Rejection:
    """Nothing of the body came for a while (decision 2)."""
    return PlainRejection(
        ErrorCode.REQUEST_TIMEOUT, f"no part of the request body came for {timeout:g} seconds"
    )


def overloaded(signal: str) -> Rejection:
    """This process has more to do than it can."""
    return PlainRejection(
        ErrorCode.SERVICE_UNAVAILABLE,
        f"the endpoint picker is overloaded ({signal})",
        details="overloaded",
        retry_after=1,
    )
