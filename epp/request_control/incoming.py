"""A request as the gateway room hands it over, and the headers that tell about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.framework.headers import Headers
    from epp.framework.request import InferenceRequest

REQUEST_ID_HEADER = "x-request-id"
FAIRNESS_HEADERS = ("x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id")
REWRITE_HEADERS = ("x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite")


@dataclass(slots=True, kw_only=True)
class IncomingRequest:
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
    request: InferenceRequest | None = None
    """What the director made of it, as far as it came; also for a request it rejects."""


def first_header(headers: Headers, names: tuple[str, ...]) -> str | None:
    """Value of the first of `names` that is present, even if it is empty (protocol §3.3)."""
    for name in names:
        if name in headers:
            return headers.get(name)
    return None
