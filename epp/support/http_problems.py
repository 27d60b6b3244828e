"""Why a server of HTTP can't be heard, in words that quote nothing of what it sent."""

from __future__ import annotations

import os
import socket
import ssl

import aiohttp


def http_problem(error: BaseException) -> str:
    """A few words for people; what aiohttp would say may be long, and of anybody's data."""
    if isinstance(error, aiohttp.ClientResponseError):
        return "what answers there speaks no HTTP"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(
        error, aiohttp.ClientSSLError
    ):
        error = error.os_error
    if isinstance(error, socket.gaierror):
        return "the name is not known to DNS"
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
