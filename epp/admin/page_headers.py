"""What browsers are told about every page of the HTTP ports."""

from __future__ import annotations

from aiohttp import web

# Nothing from elsewhere, nothing inline, and no text that becomes markup.
_CONTENT = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
_EVERYWHERE = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Server": "epp",  # rather than the versions of Python and of a library
}
PAGE_HEADERS = {
    **_EVERYWHERE,
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _CONTENT.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of the admin port."""
BARE_HEADERS = {
    **_EVERYWHERE,
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of what is for no browser: the metrics port, and requests that are no HTTP."""


async def add_page_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare` of the admin port: errors have them, too."""
    response.headers.update(PAGE_HEADERS)


async def add_bare_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare` of the metrics port."""
    response.headers.update(BARE_HEADERS)
