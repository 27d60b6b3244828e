"""Contract of body parsers: what a request asks for, and what its response cost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from epp.framework.plugin import Plugin

if TYPE_CHECKING:
    from epp.framework.data_types import MultiModalFeature
    from epp.framework.usage import Usage


@dataclass(frozen=True, slots=True)
class Media:
    """An image, video, sound or file within a prompt."""

    modality: str
    """`image`, `video`, `audio`, `file`."""
    content: bytes | memoryview
    """The URL, `data:` URLs included, or else the encoded data, as text of the body."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """One prompt as the model will see it, in the order in which engines render it."""

    pieces: Sequence[bytes | memoryview | Media] = ()
    """UTF-8 text and media: tools, system, messages. Views keep the body alive."""
    token_ids: bytes | None = None
    """Instead of text: token ids the client gave, little-endian uint32."""
    features: tuple[MultiModalFeature, ...] = ()
    """Media among the token ids, as the client described them."""


@dataclass(slots=True, kw_only=True)
class ParsedRequest:
    """What a parser found in a body."""

    api: str
    """`chat/completions`, `completions`, `embeddings`, `messages` …; empty for raw payloads."""
    model: str = ""
    stream: bool = False
    max_output_tokens: int | None = None
    is_json_object: bool = False
    """Whether the model can be read from and written to the body."""
    skip_response_processing: bool = False
    cache_salt: str = ""
    """Keeps the prefix caches of tenants apart."""
    read_prompts: Callable[[], Sequence[PromptText]] | None = None
    """Reads the prompts out of the body, which it keeps alive; None: there are none to be read.
    The request's body is let go of after the pick, and this with it."""


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
