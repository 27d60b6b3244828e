"""What browsers are told about every page of the admin port."""

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
PAGE_HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _CONTENT.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


async def add_page_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`: errors have them, too."""
    response.headers.update(PAGE_HEADERS)
