"""Keeps pages of other sites out of a port that is for this machine alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from epp.admin.json_answers import problem_answer
from epp.support.addresses import canonical_ip

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HARMLESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` that tell of our own page, and of nobody's page."""


@web.middleware
async def refuse_other_hosts(request: web.Request, handler: Handler) -> web.StreamResponse:
    """On loopback, answer only what was asked of an address or of localhost.

    A page whose name its owner lets point to 127.0.0.1 could read everything otherwise, in the
    browser of whoever opens it.
    """
    if _is_loopback(request) and not _is_local(request.host):
        text = f"host: {request.host[:64]!r}: must be localhost or an IP address"
        return problem_answer(HTTPStatus.MISDIRECTED_REQUEST, text)
    return await handler(request)


@web.middleware
async def refuse_other_sites(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let no page of another site change anything, in the browser of whoever opens it."""
    if request.method not in HARMLESS_METHODS and not _is_from_own_site(request):
        return problem_answer(
            HTTPStatus.FORBIDDEN,
            f"{request.method} came from a page of another site; send it without a browser",
        )
    return await handler(request)


def _is_from_own_site(request: web.Request) -> bool:
    """Whether our page or no page sent it: what is no browser tells neither site nor origin."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in OWN_SITES
    origin = request.headers.get("Origin")
    return origin is None or origin.partition("://")[2] == request.host


def _is_loopback(request: web.Request) -> bool:
    transport = request.transport
    name = transport.get_extra_info("sockname") if transport is not None else None
    # Canonical: a socket for IPv4 and IPv6 tells 127.0.0.1 as an address of IPv6.
    ip = canonical_ip(name[0]) if name else None
    return ip is not None and ipaddress.ip_address(ip).is_loopback


def _is_local(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.lower() == "localhost" or canonical_ip(name.strip("[]")) is not None
