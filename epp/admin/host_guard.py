"""Keeps pages of other sites out of a port that is for this machine alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec
from aiohttp import web

from epp.admin.decision_view import Problem

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def refuse_other_hosts(request: web.Request, handler: Handler) -> web.StreamResponse:
    """On loopback, answer only what was asked of an address or of localhost.

    A page whose name its owner lets point to 127.0.0.1 could read everything otherwise, in the
    browser of whoever opens it.
    """
    if _is_loopback(request) and not _is_local(request.host):
        text = f"host: {request.host[:64]!r}: must be localhost or an IP address"
        return web.Response(
            body=msgspec.json.encode(Problem(error=text)),
            status=HTTPStatus.MISDIRECTED_REQUEST,
            content_type="application/json",
        )
    return await handler(request)


def _is_loopback(request: web.Request) -> bool:
    transport = request.transport
    name = transport.get_extra_info("sockname") if transport is not None else None
    address = _address(name[0]) if name else None
    return address is not None and address.is_loopback


def _is_local(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.lower() == "localhost" or _address(name.strip("[]")) is not None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
