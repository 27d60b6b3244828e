"""The metrics port opens to those who carry a token that is allowed to read the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import hdrs, web

from epp.admin.access import Access, TooManyReviews, Verdict
from epp.support.access import ReviewFailed

OPEN_PAGES = frozenset({"/healthz"})
LONGEST_TOKEN = 8192
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class MetricsGuard:
    """Answers in the place of every page but `/healthz`, unless who asks may read it."""

    def __init__(self, access: Access, refused: Callable[[str], None]) -> None:
        self._access = access
        self._refused = refused

    def add_to(self, pages: web.Application) -> None:
        """Stand before these pages."""

        @web.middleware
        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            found = request.match_info
            resource = found.route.resource
            if found.http_exception is not None or resource is None:
                return await handler(request)  # there is nothing to read
            # The path as it is declared: one page has one name, however it was written.
            path = resource.canonical
            refusal = None if path in OPEN_PAGES else await self._refusal(request, path)
            return await handler(request) if refusal is None else refusal

        pages.middlewares.append(guard)

    async def _refusal(self, request: web.Request, path: str) -> web.Response | None:
        token = bearer_token(request)
        if not token:
            return self._answer(
                HTTPStatus.UNAUTHORIZED,
                "no-token",
                "this page takes a token: Authorization: Bearer <token>",
            )
        verb = _verb_of(request.method)
        try:
            verdict = await self._access.verdict(token, path, verb)
        except TooManyReviews:
            text = "too many unknown tokens at once; try again"
            return self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "too-many-reviews", text)
        except ReviewFailed as error:
            text = f"the token can't be reviewed: {error}"
            return self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "review-failed", text)
        if verdict is Verdict.INVALID_TOKEN:
            return self._answer(HTTPStatus.UNAUTHORIZED, verdict, "the token is not valid")
        if verdict is Verdict.FORBIDDEN:
            text = (
                f"the token's user may not {verb} {path}: bind a ClusterRole with"
                f" nonResourceURLs: [{path}], verbs: [{verb}] to it, such as epp-metrics-reader"
            )
            return self._answer(HTTPStatus.FORBIDDEN, verdict, text)
        return None

    def _answer(self, status: HTTPStatus, reason: str, text: str) -> web.Response:
        self._refused(reason)
        headers = {}
        if status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        elif status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = "5"
        return web.Response(status=status, text=f"{text}\n", headers=headers)


def _verb_of(method: str) -> str:
    """What the right to a request of this method is called."""
    # Who may read a page may see its head: HEAD is GET without the body.
    return "get" if method == hdrs.METH_HEAD else method.lower()


def bearer_token(request: web.Request) -> str:
    """The one token the request carries; empty: none, or what can't be one."""
    headers = request.headers.getall("Authorization", [])
    if len(headers) != 1:
        return ""
    scheme, _, token = headers[0].partition(" ")
    token = token.strip(" ")
    if scheme.lower() != "bearer" or not token.isascii() or len(token) > LONGEST_TOKEN:
        return ""
    return token if token.isprintable() and " " not in token else ""
