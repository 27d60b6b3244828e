"""What the data layer asks of an HTTP client: one page of one server, again and again."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from epp.framework.data_layer import HttpTarget


class Page(Protocol):
    """One page of one server. One request at a time, and each is told of exactly once."""

    def fetch(self) -> None:
        """Ask for it."""

    def abort(self) -> None:
        """Give up the request in flight and its connection; nothing is told of it."""

    def close(self) -> None:
        """`abort`, and let go of everything; nothing is told any more."""


class PageOpener(Protocol):
    """Where pages come from."""

    def open(self, target: HttpTarget, reader: PageReader) -> Page:
        """The page `target` names; nothing is asked yet."""

    async def aclose(self) -> None:
        """Let go of everything; close the pages first."""


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
    if isinstance(error, ssl.SSLError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
