"""Whether the body of a response is changed, and how: what the gateway's body mode lets us do."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from epp.support.model_names import ChunkModelRewriter, DocumentModelRewriter, LineModelRewriter

if TYPE_CHECKING:
    from epp.request_control.active_request import ActiveRequest
    from epp.support.model_names import ModelRewriter


_LINES_OF_JSON = ("ndjson", "jsonl")
"""Streams of documents, which can't be held until they end."""


class BodyPolicy(Enum):
    """How the gateway's body mode lets a response body be changed."""

    HOLD = auto()
    """Pieces may be answered later and cut anew (full duplex)."""
    AT_ONCE = auto()
    """Every piece is answered at once."""
    WHOLE = auto()
    """The body comes in one piece and keeps its content-length."""
    UNSEEN = auto()
    """The body does not come by."""


def model_rewriter(
    active: ActiveRequest, media_type: str, policy: BodyPolicy, *, streaming: bool
) -> ModelRewriter | None:
    """What turns the model name of a response back; None: it stays as it is."""
    target, incoming = active.request.target_model, active.request.incoming_model
    if not active.body_changed or not target or not incoming or target == incoming:
        return None
    if policy is BodyPolicy.AT_ONCE:
        return ChunkModelRewriter(target, incoming)
    if streaming or any(kind in media_type for kind in _LINES_OF_JSON):
        return LineModelRewriter(target, incoming)
    if "json" in media_type or not media_type:
        return DocumentModelRewriter(target, incoming)
    return None
