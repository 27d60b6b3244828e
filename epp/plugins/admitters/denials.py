"""How admitters turn requests away: for now, so that it is worth trying again."""

from __future__ import annotations

from epp.framework.errors import DropReason, ErrorCode, PlainRejection

RETRY_AFTER_SECONDS = 1


def no_room(message: str) -> PlainRejection:
    """429, as wherever endpoints have no room left for a request."""
    return PlainRejection(
        ErrorCode.RESOURCE_EXHAUSTED,
        message,
        drop_reason=DropReason.SATURATED,
        retry_after=RETRY_AFTER_SECONDS,
    )
