"""Which model a request asks for, and which one it gets (protocol §6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.framework.errors import ErrorCode, PlainRejection
from epp.request_control.incoming import REWRITE_HEADERS, first_header
from epp.support.json_members import with_model

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest


def resolve_model(request: InferenceRequest) -> None:
    """Set `incoming_model` and `target_model`; a JSON body without either is a 400."""
    parsed = request.parsed
    rewrite = first_header(request.headers, REWRITE_HEADERS) or ""
    request.incoming_model = parsed.model if parsed else ""
    if parsed is None or not parsed.is_json_object:
        request.target_model = rewrite
        return
    request.target_model = rewrite or request.incoming_model
    if not request.target_model:
        raise PlainRejection(ErrorCode.BAD_REQUEST, "model not found in request body")


def rewritten_body(request: InferenceRequest, body: bytes) -> bytes | None:
    """`body` with the target model in place of its own; None when nothing changes."""
    parsed = request.parsed
    if parsed is None or not parsed.is_json_object or request.target_model == parsed.model:
        return None
    try:
        return with_model(body, request.target_model)
    except ValueError as error:
        raise PlainRejection(ErrorCode.BAD_REQUEST, str(error)) from error
