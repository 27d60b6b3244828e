"""Why a server of HTTP can't be heard, in words that quote nothing of what it sent."""

from __future__ import annotations

import aiohttp


def http_problem(error: BaseException) -> str:
    """A few words for people; what aiohttp would say may be long, and of anybody's data."""
    if isinstance(error, aiohttp.ClientResponseError):
        return "what answers there speaks no HTTP"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    return str(error) or type(error).__name__
