"""Contract of body parsers: what a request asks for, and what its response cost."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

from epp.framework.plugin import Plugin

if TYPE_CHECKING:
    from epp.framework.parsed_request import ParsedRequest
    from epp.framework.usage import Usage


class ResponseReader(Protocol):
    """Reads token usage from the response body as it streams by."""

    streamed_events: int

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of the body; work is proportional to its length."""

    def finish(self) -> Usage | None:
        """The usage reported in all of the body; None if there was none."""


class Parser(Plugin):
    """Understands the bodies of some paths."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Path endings this parser claims, without slashes around them; none: it is the fallback."""
    protocols: ClassVar[tuple[str, ...]] = ()
    """Values of the pool's `appProtocol` it can serve (`http`, `kubernetes.io/h2c`); none: any."""

    @abstractmethod
    def parse_request(self, path: str, body: bytes) -> ParsedRequest:
        """Read a complete, decoded body; raises `Rejection` with code BadRequest."""

    def response_reader(self, *, streaming: bool) -> ResponseReader | None:
        """A reader for one response; None when its usage can't be read. Default: none."""
        return None
