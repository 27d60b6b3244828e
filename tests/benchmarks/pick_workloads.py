"""Traffic that tells pickers apart: who shares prefixes with whom, how long prompts are, and when
they come. The same seed gives the same requests at the same times."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from epp.simulator.prefix_cache import block_hashes
from tests.benchmarks.batching_engine import BLOCK_TOKENS, BLOCKS, Work

TOKEN_BYTES = 4
"""As the picker estimates it."""
BURST_EVERY_SECONDS = 4.0
BURST_SECONDS = 0.4
BURST_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request and when it comes."""

    at: float
    prompt: str
    work: Work

    @property
    def model(self) -> str:
        """Name of the adapter, or of the base model."""
        return self.work.adapter or "base"


class Traffic(Protocol):
    """Makes up requests, one after the other."""

    def next(self, at: float) -> tuple[str, str, str]:
        """Prompt, answer and adapter of the request that comes at this time."""


class Shared:
    """Some system prompts, a few of them more popular than the rest, and a question of one's own.

    With adapters, each system prompt belongs to one of them.
    """

    def __init__(self, rng: random.Random, *, adapters: int = 0) -> None:
        self._rng = rng
        self._system = [_text(rng, rng.randint(2_000, 6_000)) for _ in range(40)]
        self._popularity = [1 / (rank + 5) for rank in range(40)]
        self._adapters = adapters

    def next(self, at: float) -> tuple[str, str, str]:
        (chosen,) = self._rng.choices(range(40), self._popularity)
        question = _text(self._rng, _between(self._rng, 40, 1_500))
        adapter = f"adapter-{chosen % self._adapters}" if self._adapters else ""
        return self._system[chosen] + question, _answer(self._rng), adapter


class Chats:
    """Conversations of 3 to 8 turns that begin with a document and grow."""

    PAUSE_SECONDS = 1.5

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._open: list[tuple[float, int, str]] = []
        """When the last turn began, how many are left, and all that was said."""

    def next(self, at: float) -> tuple[str, str, str]:
        rng = self._rng
        idle = [chat for chat in self._open if chat[0] < at - self.PAUSE_SECONDS]
        if idle and rng.random() < 1 - 1 / 5.5:
            chat = rng.choice(idle)
            self._open.remove(chat)
            _, turns, said = chat
        else:
            turns, said = rng.randint(3, 8), _text(rng, rng.randint(500, 4_000))
        prompt, answer = said + _text(rng, rng.randint(20, 300)), _answer(rng)
        if turns > 1:
            self._open.append((at, turns - 1, prompt + answer))
        return prompt, answer, ""


class Unrelated:
    """Prompts that share nothing; most are short, a few very long."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def next(self, at: float) -> tuple[str, str, str]:
        tokens = min(12_000, max(20, round(self._rng.lognormvariate(5.8, 1.2))))
        return _text(self._rng, tokens), _answer(self._rng), ""


class Mixed:
    """Half of it shared, half unrelated."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._kinds = (Shared(rng), Unrelated(rng))

    def next(self, at: float) -> tuple[str, str, str]:
        return self._rng.choice(self._kinds).next(at)


def arrivals(
    traffic: Traffic, rng: random.Random, *, rate: float, seconds: float, bursts: bool
) -> list[Arrival]:
    """Requests of an open loop: nobody waits for anybody's answer."""
    times = sorted(_burst_times(rng, rate, seconds) if bursts else _times(rng, rate, seconds))
    return [_arrival(at, *traffic.next(at)) for at in times]


def _times(rng: random.Random, rate: float, seconds: float) -> Iterator[float]:
    at = 0.0
    while (at := at + rng.expovariate(rate)) < seconds:
        yield at


def _burst_times(rng: random.Random, rate: float, seconds: float) -> Iterator[float]:
    for at in _times(rng, rate, seconds):
        window = at - at % BURST_EVERY_SECONDS
        is_burst = rng.random() < BURST_SHARE
        yield window + rng.uniform(0, BURST_SECONDS) if is_burst else at


def _arrival(at: float, prompt: str, answer: str, adapter: str) -> Arrival:
    said = (prompt + answer).encode()
    hashes = block_hashes(adapter.encode(), said, BLOCK_TOKENS * TOKEN_BYTES, BLOCKS)
    work = Work(len(prompt) // TOKEN_BYTES, len(answer) // TOKEN_BYTES, adapter, hashes)
    return Arrival(at=at, prompt=prompt, work=work)


def _text(rng: random.Random, tokens: int) -> str:
    return rng.randbytes(tokens * TOKEN_BYTES // 2).hex()


def _answer(rng: random.Random) -> str:
    return _text(rng, _between(rng, 10, 300))


def _between(rng: random.Random, low: int, high: int) -> int:
    """Log-uniform: as often between 50 and 100 as between 500 and 1,000."""
    return round(low * math.exp(rng.random() * math.log(high / low)))
