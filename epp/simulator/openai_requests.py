"""Bodies of the OpenAI API, as far as a simulated server reads them."""

from __future__ import annotations

import struct
from typing import Annotated, Any

import msgspec

from epp.simulator.errors import ApiError
from epp.simulator.settings import MAX_OUTPUT_TOKENS

Content = str | list[dict[str, Any]] | None
TokenLimit = Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)] | None
TokenId = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Input = str | list[str | TokenId | list[TokenId]]


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: str
    content: Content = None


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream holds beside its tokens."""

    include_usage: bool | None = None


class OpenAiRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What chat and completions have in common."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: TokenLimit = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with an event for the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatRequest(OpenAiRequest, frozen=True, kw_only=True):
    """Body of `/v1/chat/completions`."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    max_completion_tokens: TokenLimit = None

    @property
    def token_limit(self) -> int | None:
        """How long the answer may be."""
        return self.max_completion_tokens or self.max_tokens


class CompletionRequest(OpenAiRequest, frozen=True, kw_only=True):
    """Body of `/v1/completions`."""

    prompt: Input


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `/v1/embeddings`."""

    model: str
    input: Input
    encoding_format: str | None = None
    dimensions: Annotated[int, msgspec.Meta(ge=1, le=4096)] | None = None


def plain_text(content: Content) -> str:
    """The content's text; parts that are not text are taken as their JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(
        part["text"] if isinstance(part.get("text"), str) else msgspec.json.encode(part).decode()
        for part in content
    )


def chat_prompt(turns: list[tuple[str, str]]) -> bytes:
    """A conversation as a chat template writes it; longer ones begin with shorter ones."""
    turns_text = "".join(f"<|{role}|>\n{text}\n" for role, text in turns)
    return f"{turns_text}<|assistant|>\n".encode()


def last_user_text(turns: list[tuple[str, str]]) -> str:
    """What the user said last."""
    return next((text for role, text in reversed(turns) if role == "user"), "")


def prompts_of(given: Input, param: str) -> list[bytes]:
    """The prompts in one text, several texts, one list of token ids or several."""
    if isinstance(given, str):
        return [given.encode()]
    if not given:
        raise ApiError(400, f"{param}: [] is empty; allowed is at least one prompt", param=param)
    texts = [item.encode() for item in given if isinstance(item, str)]
    ids = [item for item in given if isinstance(item, int)]
    lists = [_prompt_of_ids(item) for item in given if isinstance(item, list)]
    if len(given) not in (len(texts), len(ids), len(lists)):
        raise ApiError(
            400, f"{param}: texts, token ids and lists of token ids can't be mixed", param=param
        )
    return texts or lists or [_prompt_of_ids(ids)]


def _prompt_of_ids(ids: list[int]) -> bytes:
    return struct.pack(f"<{len(ids)}I", *ids)
