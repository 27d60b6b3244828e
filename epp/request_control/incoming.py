"""A request as the gateway room hands it over, and the headers that tell about it."""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING

from msgspec import Struct

from epp.framework.request import InferenceRequest

if TYPE_CHECKING:
    from epp.framework.headers import Headers
    from epp.request_control.tracing import RequestTrace

REQUEST_ID_HEADER = "x-request-id"
FAIRNESS_HEADERS = ("x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id")
REWRITE_HEADERS = ("x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite")
PATH_HEADERS = (":path", "x-original-path", "x-forwarded-path")
DEFAULT_PATH = "/v1/completions"

_METHODS_WITHOUT_CONTENT = frozenset((b"GET", b"HEAD", b"OPTIONS", b"DELETE", b"TRACE"))

LONG_BODY = 1024 * 1024
"""Bytes; longer bodies are read in several turns of the event loop."""
LONG_ENCODED_BODY = 64 * 1024
"""The same for bodies in a content coding, which grow when they are read."""


class IncomingRequest(Struct, kw_only=True, eq=False):
    """A request as the gateway room hands it over."""

    headers: Headers
    received_at: float
    body: bytes | None = None
    """None: decided without it."""
    subset: object = None
    """Value of the subset hint as Python data, see `candidates`."""
    bodiless: bool = False
    body_may_be_cut: bool = False
    """The gateway may have cut it: what does not parse is routed as raw payload."""
    reserve: bool = True
    """Whether the pick counts as in flight; not for a gateway that only observes."""
    trace: RequestTrace | None = None
    """None: it is not traced."""
    request: InferenceRequest | None = None
    """What the director made of it, as far as it came; also for a request it rejects."""

    @property
    def is_long(self) -> bool:
        """Whether others should have their turn while it is read."""
        size = len(self.body or b"")
        if size <= LONG_ENCODED_BODY:
            return False
        return size > LONG_BODY or "content-encoding" in self.headers


def new_request(incoming: IncomingRequest, rng: random.Random) -> InferenceRequest:
    """The request that plugins are shown, of which no more is known than its headers."""
    headers = incoming.headers
    request_id = headers.get(REQUEST_ID_HEADER)
    if not request_id:
        request_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        headers.set(REQUEST_ID_HEADER, request_id)
    incoming.request = request = InferenceRequest(
        id=request_id,
        path=request_path(headers),
        headers=headers,
        parsed=None,
        size_bytes=len(incoming.body or b""),
    )
    return request


def request_path(headers: Headers) -> str:
    """Path of the request without its query string; completions if no header tells it."""
    for name in PATH_HEADERS:
        path = headers.get(name)
        if path:
            return path.partition("?")[0]
    return DEFAULT_PATH


def is_path_told(headers: Headers) -> bool:
    """Whether any header tells the path; some gateways send none that does."""
    return any(map(headers.get, PATH_HEADERS))


def first_header(headers: Headers, names: tuple[str, ...]) -> str | None:
    """Value of the first of `names` that is present, even if it is empty (protocol §3.3)."""
    for name in names:
        if name in headers:
            return headers.get(name)
    return None


def has_no_content(headers: Headers) -> bool:
    """Whether an empty body is none at all: some clients and gateways end such requests apart
    from their headers."""
    return headers.as_mapping().get(":method") in _METHODS_WITHOUT_CONTENT


def opens_tunnel(headers: Headers) -> bool:
    """Whether what follows the headers is no body that would end: WebSocket, or CONNECT."""
    method = headers.as_mapping().get(":method")
    if method == b"GET":
        return (headers.get("upgrade") or "").lower() == "websocket"
    return method == b"CONNECT"
