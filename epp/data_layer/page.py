"""What the data layer asks of an HTTP client: one page of one server, again and again."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Page(Protocol):
    """One page of one server. One request at a time, and each is told of exactly once."""

    def fetch(self) -> None:
        """Ask for it."""

    def abort(self) -> None:
        """Give up the request in flight and its connection; nothing is told of it."""

    def close(self) -> None:
        """`abort`, and let go of everything; nothing is told any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReader:
    """Who is told."""

    page: Callable[[bytes], None]
    """The server answered with status 200 and these bytes."""
    failure: Callable[[str], None]
    """There is no page, for this reason."""


def reason_of(error: BaseException) -> str:
    """A few words for people on why a connection failed."""
    if isinstance(error, socket.gaierror):
        return f"host name: {error.strerror}"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
