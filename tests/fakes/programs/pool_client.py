"""A client library's view of a pool: who served, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import openai

from tests.fakes.programs.processes import MODEL
from tests.fakes.programs.stack import Stack

SERVED = "x-gateway-destination-endpoint-served"
DECISION = "x-epp-decision"
TIMEOUT_SECONDS = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What the headers of an answer tell."""

    server: str
    decision: str
    """Empty unless the picker was asked to tell."""


class PoolClient:
    """Asks a pool for one token at a time."""

    def __init__(self, stack: Stack) -> None:
        self._client = openai.OpenAI(
            base_url=f"{stack.url}/v1", api_key="none", max_retries=0, timeout=TIMEOUT_SECONDS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(
        self, prompt: str, *, model: str = MODEL, headers: Mapping[str, str] | None = None
    ) -> Pick:
        """Complete a prompt; raises `openai.APIStatusError` for an answer that is an error."""
        answer = self._client.completions.with_raw_response.create(
            model=model, prompt=prompt, max_tokens=1, extra_headers=headers
        )
        return Pick(server=answer.headers[SERVED], decision=answer.headers.get(DECISION, ""))

    def servers_of(self, *prompts: str) -> list[str]:
        """Who serves these, one after another."""
        return [self.ask(prompt).server for prompt in prompts]


def different_prompts(number: int) -> list[str]:
    """Prompts that have not even their beginnings in common."""
    return [f"{index} is another question" for index in range(number)]
