"""Prompts as pseudo-tokens: four bytes of text are one, and media are runs of their hash.

The padded text *is* the array of little-endian uint32; nothing is converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import xxhash

from epp.framework.data_types import Prompt
from epp.framework.parsed_request import Media, MultiModalFeature, PromptText

if TYPE_CHECKING:
    from epp.framework.headers import Headers
    from epp.plugins.producers.media_estimate import MediaEstimate

MAX_MEDIA_TOKENS_PER_REQUEST = 2 * 1024 * 1024
"""Tokens of all media of a request, one each apart: a short body must not become gigabytes."""

MAX_MEDIA_PER_REQUEST = 1024
"""Media of a request that are looked at: a body has room for a hundred thousand. Of those that
follow there is one token each, which makes prompts that differ in them differ."""

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Tokens of a request that are kept, in bytes: more than models read. The others are counted."""

_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
"""By length modulo 4."""


class PseudoTokens:
    """Turns the prompts of one request into tokens."""

    def __init__(self, estimate: MediaEstimate, headers: Headers) -> None:
        self._estimate = estimate
        self._headers = headers
        self._left = MAX_MEDIA_TOKENS_PER_REQUEST
        self._media_left = MAX_MEDIA_PER_REQUEST
        self._room = MAX_KEPT_BYTES

    def prompts(self, texts: Sequence[PromptText]) -> tuple[Prompt, ...]:
        """One prompt for each; token ids of the client stay as they are."""
        return tuple(map(self._prompt, texts))

    def _prompt(self, text: PromptText) -> Prompt:
        if text.token_ids is not None:
            return Prompt(text.token_ids, text.features, text.omitted_tokens)
        joined: list[bytes | memoryview] = []
        features: list[MultiModalFeature] = []
        length = 0
        for piece in text.pieces:
            if not isinstance(piece, Media):
                joined.append(piece)
                length += len(piece)
                continue
            padding = _PADDING[length % 4]
            digest = xxhash.xxh64_intdigest(piece.content)
            run = (digest & 0xFFFFFFFF).to_bytes(4, "little")
            if self._media_left:
                self._media_left -= 1
                count = self._tokens_of(piece)
                run *= count
                offset = (length + len(padding)) // 4
                features.append(MultiModalFeature(piece.modality, f"{digest:016x}", offset, count))
            joined += padding, run
            length += len(padding) + len(run)
        padding = _PADDING[length % 4]
        joined.append(padding)
        length += len(padding)
        if length > self._room:
            joined = _beginning(joined, self._room)
        tokens = b"".join(joined)
        self._room -= len(tokens)
        return Prompt(tokens, tuple(features), omitted_tokens=(length - len(tokens)) // 4)

    def _tokens_of(self, media: Media) -> int:
        count = min(self._estimate.tokens(media, self._headers), self._left + 1)
        self._left -= count - 1
        return count


def _beginning(pieces: Iterable[bytes | memoryview], room: int) -> list[bytes | memoryview]:
    beginning: list[bytes | memoryview] = []
    for piece in pieces:
        beginning.append(piece[:room])
        room -= len(beginning[-1])
        if not room:
            break
    return beginning
