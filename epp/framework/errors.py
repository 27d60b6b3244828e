"""Errors that cross rooms.

    PickerError
    ├── ConfigError          start-up stops with exit code 2
    │   └── PortTaken        … unless there is another port to try
    └── Rejection            the request ends with an HTTP status the client will see
        └── PlainRejection   … and with a message that logs may have, too

Anything else is a bug or a plugin's fault; it is contained where it happens and answered by
the pool's failure mode.
"""

from __future__ import annotations

from enum import StrEnum


class PickerError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(PickerError):
    """The process was told something it can't work with: names field, value and what is allowed."""


class PortTaken(ConfigError):
    """A port can't be listened on; another one may do."""


class ErrorCode(StrEnum):
    """Codes of the error text `inference error: <Code> - <message>` and their HTTP statuses."""

    BAD_REQUEST = "BadRequest"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    REQUEST_TIMEOUT = "RequestTimeout"
    PRECONDITION_FAILED = "PreconditionFailed"
    PAYLOAD_TOO_LARGE = "PayloadTooLarge"
    RESOURCE_EXHAUSTED = "ResourceExhausted"
    INTERNAL = "Internal"
    SERVICE_UNAVAILABLE = "ServiceUnavailable"

    @property
    def http_status(self) -> int:
        return _HTTP_STATUS[self]


_HTTP_STATUS = {
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.REQUEST_TIMEOUT: 408,
    ErrorCode.PRECONDITION_FAILED: 412,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.RESOURCE_EXHAUSTED: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
}


class DropReason(StrEnum):
    """Values of the response header `x-llm-d-request-dropped-reason`."""

    SATURATED = "rejected-saturated"
    NO_ENDPOINTS = "rejected-no-endpoints"


class Rejection(PickerError):
    """The request ends here with an HTTP status the client will see.

    `message` is for the client, whom it may quote. Logs and kept decisions have `log_message`,
    which must have nothing of body, headers and query; by default it is the code. `details`
    defaults to the drop reason, else to the code. `retry_after` is in seconds; None says that
    waiting does not help.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        log_message: str | None = None,
        drop_reason: DropReason | None = None,
        details: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.log_message = self._default_log_message if log_message is None else log_message
        self.drop_reason = drop_reason
        self.details = details or str(drop_reason or _snake_case(code))
        self.retry_after = retry_after

    @property
    def _default_log_message(self) -> str:
        return str(self.code)

    @property
    def http_status(self) -> int:
        return self.code.http_status

    @property
    def access_log_details(self) -> str:
        """`details` as they stand in the gateway's access log, and so in the request log."""
        return "epp_" + self.details.replace("-", "_")


class PlainRejection(Rejection):
    """A rejection whose message quotes nothing of the client, so that logs have it, too."""

    @property
    def _default_log_message(self) -> str:
        return self.message


def _snake_case(code: ErrorCode) -> str:
    return code.name.lower()
