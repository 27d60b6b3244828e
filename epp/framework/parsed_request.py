"""What a request asks for, read out of its body: model, options, and the prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct


class MultiModalFeature(Struct, frozen=True):
    """Where an item stands among the tokens of a prompt."""

    modality: str
    hash: str
    offset: int
    length: int


class Media(Struct, frozen=True):
    """An image, video, sound or file within a prompt."""

    modality: str
    """`image`, `video`, `audio`, `file`."""
    content: bytes | memoryview
    """The URL, `data:` URLs included, or else the encoded data, as text of the body."""


class PromptText(Struct, frozen=True):
    """One prompt as the model will see it, in the order in which engines render it."""

    pieces: Sequence[bytes | memoryview | Media] = ()
    """UTF-8 text and media: tools, system, messages. Views keep the body alive."""
    token_ids: bytes | None = None
    """Instead of text: token ids the client gave, little-endian uint32."""
    features: tuple[MultiModalFeature, ...] = ()
    """Media among the token ids, as the client described them."""
    omitted_tokens: int = 0
    """How many token ids follow that are not kept: of prompts longer than is looked at."""


class ParsedRequest(Struct, kw_only=True):
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
