"""Chat, completions, embeddings and models of the OpenAI API."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from aiohttp import web

from epp.simulator.bodies import json_response, read_json
from epp.simulator.catalog import Catalog, Ids
from epp.simulator.clock import Clock
from epp.simulator.engine import Engine, Generation
from epp.simulator.event_stream import EventStream
from epp.simulator.openai_requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    OpenAiRequest,
    chat_prompt,
    last_user_text,
    plain_text,
    prompts_of,
)
from epp.simulator.text import Output, Writer

DEFAULT_DIMENSIONS = 16

Choice = dict[str, object]
MakeChoice = Callable[[int, str, str | None], Choice]
"""Makes a choice, or a part of one, from its index, text and reason to finish."""


class OpenAiApi:
    """Handlers; one object per server."""

    def __init__(
        self, engine: Engine, catalog: Catalog, writer: Writer, ids: Ids, clock: Clock
    ) -> None:
        self._engine = engine
        self._catalog = catalog
        self._writer = writer
        self._ids = ids
        self._clock = clock

    async def models(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/models`"""
        return json_response(self._catalog.listing())

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/chat/completions`"""
        body = await read_json(request, ChatRequest)
        adapter = self._catalog.adapter_of(body.model)
        turns = [(message.role, plain_text(message.content)) for message in body.messages]
        prompt = chat_prompt(turns)
        output = self._writer.answer(prompt, last_user_text(turns), body.token_limit)
        with self._engine.enqueue(prompt, adapter, output) as generation:
            if body.stream:
                head = self._head("chatcmpl", "chat.completion.chunk", body.model)
                return await self._stream(request, body, head, [generation], _chat_delta)
            head = self._head("chatcmpl", "chat.completion", body.model)
            return await _whole(head, [generation], _chat_message)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/completions`"""
        body = await read_json(request, CompletionRequest)
        adapter = self._catalog.adapter_of(body.model)
        head = self._head("cmpl", "text_completion", body.model)
        with ExitStack() as stack:
            generations = []
            for prompt in prompts_of(body.prompt, "prompt"):
                echoed = prompt.decode("utf-8", "replace")
                output = self._writer.answer(prompt, echoed, body.max_tokens)
                generation = self._engine.enqueue(prompt, adapter, output)
                generations.append(stack.enter_context(generation))
            if body.stream:
                return await self._stream(request, body, head, generations, _text_choice)
            return await _whole(head, generations, _text_choice)

    async def embeddings(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/embeddings`"""
        body = await read_json(request, EmbeddingRequest)
        adapter = self._catalog.adapter_of(body.model)
        data = []
        prompt_tokens = 0
        for index, prompt in enumerate(prompts_of(body.input, "input")):
            with self._engine.enqueue(prompt, adapter, Output(())) as generation:
                await generation.text()
            prompt_tokens += generation.prompt_tokens
            vector = self._vector(prompt, body.dimensions or DEFAULT_DIMENSIONS)
            embedding = _base64(vector) if body.encoding_format == "base64" else vector
            data.append({"object": "embedding", "index": index, "embedding": embedding})
        return json_response(
            {
                **self._head("embd", "list", body.model),
                "data": data,
                "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
            }
        )

    async def _stream(
        self,
        request: web.Request,
        body: OpenAiRequest,
        head: dict[str, object],
        generations: Sequence[Generation],
        choice: MakeChoice,
    ) -> web.StreamResponse:
        if body.include_usage:
            head = {**head, "usage": None}
        stream = EventStream(request)
        await stream.open()
        for index, generation in enumerate(generations):
            while (piece := await generation.next_piece()) is not None:
                reason = generation.output.finish_reason if generation.is_complete else None
                await stream.send({**head, "choices": [choice(index, piece, reason)]})
            if not generation.emitted:
                reason = generation.output.finish_reason
                await stream.send({**head, "choices": [choice(index, "", reason)]})
        if body.include_usage:
            await stream.send({**head, "choices": [], "usage": _usage(generations)})
        await stream.send(b"[DONE]")
        return await stream.close()

    def _head(self, prefix: str, kind: str, model: str) -> dict[str, object]:
        return {
            "id": self._ids.next_id(prefix),
            "object": kind,
            "created": int(self._clock.unix_time()),
            "model": model,
        }

    def _vector(self, prompt: bytes, dimensions: int) -> list[float]:
        chance = self._writer.random_for(prompt)
        vector = [chance.uniform(-1, 1) for _ in range(dimensions)]
        length = math.hypot(*vector)
        return [value / length for value in vector]


async def _whole(
    head: dict[str, object], generations: Sequence[Generation], choice: MakeChoice
) -> web.StreamResponse:
    choices = [
        choice(index, await generation.text(), generation.output.finish_reason)
        for index, generation in enumerate(generations)
    ]
    return json_response({**head, "choices": choices, "usage": _usage(generations)})


def _usage(generations: Sequence[Generation]) -> dict[str, object]:
    prompt_tokens = sum(generation.prompt_tokens for generation in generations)
    completion_tokens = sum(generation.emitted for generation in generations)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {
            "cached_tokens": sum(generation.cached_tokens for generation in generations)
        },
    }


def _chat_message(index: int, text: str, reason: str | None) -> Choice:
    message = {"role": "assistant", "content": text}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": reason}


def _chat_delta(index: int, text: str, reason: str | None) -> Choice:
    delta = {"role": "assistant", "content": text}
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


def _text_choice(index: int, text: str, reason: str | None) -> Choice:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
