"""Messages of the Anthropic API."""

from __future__ import annotations

from typing import Annotated

import msgspec
from aiohttp import web

from epp.simulator.bodies import json_response, read_json
from epp.simulator.catalog import Catalog, Ids
from epp.simulator.engine import Engine, Generation
from epp.simulator.event_stream import EventStream
from epp.simulator.openai_requests import (
    Content,
    Message,
    chat_prompt,
    last_user_text,
    plain_text,
)
from epp.simulator.settings import MAX_OUTPUT_TOKENS
from epp.simulator.text import Writer, token_count

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}


class CountRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `/v1/messages/count_tokens`."""

    model: str
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    system: Content = None

    @property
    def turns(self) -> list[tuple[str, str]]:
        """Roles and their texts, in order."""
        system = [("system", plain_text(self.system))] if self.system else []
        return system + [(turn.role, plain_text(turn.content)) for turn in self.messages]


class MessagesRequest(CountRequest, frozen=True, kw_only=True):
    """Body of `/v1/messages`."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)]
    stream: bool | None = None


class AnthropicApi:
    """Handlers; one object per server."""

    def __init__(self, engine: Engine, catalog: Catalog, writer: Writer, ids: Ids) -> None:
        self._engine = engine
        self._catalog = catalog
        self._writer = writer
        self._ids = ids

    async def count_tokens(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/messages/count_tokens`"""
        body = await read_json(request, CountRequest)
        self._catalog.adapter_of(body.model)
        return json_response({"input_tokens": token_count(chat_prompt(body.turns))})

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/messages`"""
        body = await read_json(request, MessagesRequest)
        adapter = self._catalog.adapter_of(body.model)
        prompt = chat_prompt(body.turns)
        output = self._writer.answer(prompt, last_user_text(body.turns), body.max_tokens)
        message: dict[str, object] = {
            "id": self._ids.next_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": body.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        with self._engine.enqueue(prompt, adapter, output) as generation:
            if body.stream:
                return await _stream(request, message, generation)
            message["content"] = [{"type": "text", "text": await generation.text()}]
            message["stop_reason"] = _STOP_REASONS[output.finish_reason]
            message["usage"] = _usage(generation)
            return json_response(message)


async def _stream(
    request: web.Request, message: dict[str, object], generation: Generation
) -> web.StreamResponse:
    stream = EventStream(request)
    await stream.open()
    piece = await generation.next_piece()  # the start tells the cached tokens
    await _send(stream, "message_start", message={**message, "usage": _usage(generation)})
    block = {"type": "text", "text": ""}
    await _send(stream, "content_block_start", index=0, content_block=block)
    while piece is not None:
        delta = {"type": "text_delta", "text": piece}
        await _send(stream, "content_block_delta", index=0, delta=delta)
        piece = await generation.next_piece()
    await _send(stream, "content_block_stop", index=0)
    reason = _STOP_REASONS[generation.output.finish_reason]
    await _send(
        stream,
        "message_delta",
        delta={"stop_reason": reason, "stop_sequence": None},
        usage={"output_tokens": generation.emitted},
    )
    await _send(stream, "message_stop")
    return await stream.close()


async def _send(stream: EventStream, kind: str, **fields: object) -> None:
    await stream.send({"type": kind, **fields}, event=kind)


def _usage(generation: Generation) -> dict[str, int]:
    # In this API the input tokens are those that no cache held.
    return {
        "input_tokens": generation.prompt_tokens - generation.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": generation.cached_tokens,
        "output_tokens": generation.emitted,
    }
