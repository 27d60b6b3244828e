"""How far a request has come."""

from __future__ import annotations

from enum import Enum, auto


class RequestState(Enum):
    """How far the request half of a transaction has come."""

    NEW = auto()
    READING = auto()
    DECIDING = auto()
    ANSWERED = auto()
    OVER = auto()
    """Rejected, or overtaken by a response that did not wait for it."""
