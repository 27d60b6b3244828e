"""Tokens and the text of answers. A token is four bytes of prompt, or four characters of answer."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from epp.simulator.settings import MAX_OUTPUT_TOKENS, Mode, SimulatorSettings

TOKEN_BYTES = 4

FinishReason = Literal["stop", "length"]

_TEXT = (
    " air ant arc arm ash bay bee box bud bus cap car cat cup day dew dog ear egg elm eye fan"
    " fig fir fog fox gem hat hay hen hut ice ink ivy jar jet key kit lab log map mud net nut"
    " oak oil owl pea pen pin pot ray red rug sea sky sun tea toy tub urn van wax web"
)
# Four bytes each, so that a conversation's next prompt continues the cached blocks of this answer.
_WORDS = [_TEXT[start : start + TOKEN_BYTES] for start in range(0, len(_TEXT), TOKEN_BYTES)]


@dataclass(frozen=True, slots=True)
class Output:
    """An answer, token by token, and why it ends where it does."""

    pieces: Sequence[str]
    finish_reason: FinishReason = "stop"


def token_count(prompt: bytes) -> int:
    """How many tokens a prompt has."""
    return -(-len(prompt) // TOKEN_BYTES)


class Writer:
    """Writes answers; the same seed, prompt and limit give the same answer."""

    def __init__(self, settings: SimulatorSettings) -> None:
        self._mode = settings.mode
        self._seed = settings.seed
        self._default_tokens = settings.default_output_tokens

    def answer(self, prompt: bytes, echoed: str, max_tokens: int | None) -> Output:
        """The answer to `prompt`; in echo mode it is the text `echoed`."""
        limit = MAX_OUTPUT_TOKENS if max_tokens is None else max_tokens
        if self._mode is Mode.ECHO:
            return _echo(echoed, limit)
        count = self._default_tokens if max_tokens is None else max_tokens
        words = self.random_for(prompt).choices(_WORDS, k=count)
        return Output(words, "stop" if max_tokens is None else "length")

    def random_for(self, prompt: bytes) -> random.Random:
        """Random numbers that follow from seed and prompt."""
        return random.Random(f"{self._seed} {hashlib.blake2b(prompt).hexdigest()}")


def _echo(text: str, limit: int) -> Output:
    size = limit * TOKEN_BYTES
    kept = text[:size]
    pieces = [kept[start : start + TOKEN_BYTES] for start in range(0, len(kept), TOKEN_BYTES)]
    return Output(pieces, "length" if len(text) > size else "stop")
