"""A rejection as the HTTP answer the client will see, in one place."""

from __future__ import annotations

import json
from enum import StrEnum

from epp.framework.errors import ErrorCode, Rejection
from epp.gateway.messages import fill_mutation
from epp.wire import ext_proc_pb2 as wire

DROP_REASON_HEADER = "x-llm-d-request-dropped-reason"

_GRPC_STATUS = {
    ErrorCode.BAD_REQUEST: 3,
    ErrorCode.UNAUTHORIZED: 16,
    ErrorCode.FORBIDDEN: 7,
    ErrorCode.NOT_FOUND: 5,
    ErrorCode.REQUEST_TIMEOUT: 4,
    ErrorCode.PRECONDITION_FAILED: 9,
    ErrorCode.PAYLOAD_TOO_LARGE: 8,
    ErrorCode.RESOURCE_EXHAUSTED: 8,
    ErrorCode.INTERNAL: 13,
    ErrorCode.SERVICE_UNAVAILABLE: 14,
}

_OPENAI_TYPES = {
    ErrorCode.UNAUTHORIZED: "authentication_error",
    ErrorCode.FORBIDDEN: "permission_error",
    ErrorCode.NOT_FOUND: "not_found_error",
    ErrorCode.RESOURCE_EXHAUSTED: "rate_limit_error",
    ErrorCode.INTERNAL: "server_error",
    ErrorCode.SERVICE_UNAVAILABLE: "server_error",
}


class ErrorFormat(StrEnum):
    """Shape of error bodies: the reference's plain text, or JSON as OpenAI clients read it."""

    TEXT = "text"
    JSON = "json"


def immediate_response(
    rejection: Rejection, *, is_grpc: bool, error_format: ErrorFormat = ErrorFormat.TEXT
) -> bytes:
    """The message that makes the gateway answer the client itself."""
    answer = wire.ProcessingResponse()
    immediate = answer.immediate_response
    immediate.status.code = rejection.http_status
    immediate.details = rejection.access_log_details
    headers: dict[str, bytes | None] = {}
    if rejection.drop_reason is not None:
        headers[DROP_REASON_HEADER] = rejection.drop_reason.encode()
    if rejection.retry_after is not None:
        headers["retry-after"] = b"%d" % rejection.retry_after
    if error_format is ErrorFormat.JSON:
        headers["content-type"] = b"application/json"
    fill_mutation(immediate.headers, headers)
    immediate.body = error_body(rejection, error_format)
    if is_grpc:
        immediate.grpc_status.status = _GRPC_STATUS[rejection.code]
    return answer.SerializeToString()


def error_body(rejection: Rejection, error_format: ErrorFormat) -> bytes:
    """`inference error: <Code> - <message>`, alone or in an OpenAI error object."""
    text = f"inference error: {rejection.code} - {rejection.message}"
    if error_format is ErrorFormat.TEXT:
        return text.encode("utf-8", "replace")
    kind = _OPENAI_TYPES.get(rejection.code, "invalid_request_error")
    error = {"message": text, "type": kind, "param": None, "code": rejection.details}
    return json.dumps({"error": error}).encode()
