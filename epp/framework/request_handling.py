"""Contract of body parsers: what a request asks for, and what its response cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from epp.framework.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """What a parser found in a body. Shapes: the `payload` belongs to the parser that made it."""

    api: str
    """`chat/completions`, `completions`, `embeddings`, `messages` …; empty for raw payloads."""
    model: str = ""
    has_model: bool = False
    """Whether the body has a `model` member of any type: it is then replaced, else inserted."""
    stream: bool = False
    max_output_tokens: int | None = None
    is_json_object: bool = False
    """Whether the model can be read from and written to the body."""
    skip_response_processing: bool = False
    payload: object = None


class ResponseReader(Protocol):
    """Reads token usage from the response body as it streams by."""

    streamed_events: int

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of the body; work is proportional to its length."""

    def finish(self) -> Usage | None:
        """The usage reported in all of the body; None if there was none."""


class Parser(ABC):
    """Understands the bodies of some paths."""

    type: ClassVar[str]
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
