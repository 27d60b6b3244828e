"""The error that handlers answer with."""

from __future__ import annotations


class ApiError(Exception):
    """The request is answered with this status and message."""

    def __init__(self, status: int, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
